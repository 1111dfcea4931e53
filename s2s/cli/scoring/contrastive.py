"""s2s-score contrastive=FILE: how often a model finds the right output more probable than wrong ones.

The cases of Bawden et al. (2018) and ContraPro (Müller et al., 2018) have this form: outputs that differ in one word,
which the source alone, or the sentences before it, decide.
"""

from __future__ import annotations

__all__ = ["Accuracies", "Accuracy", "Case", "JudgedCase", "judged_cases", "read_cases"]

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from s2s.data import numbered_lines
from s2s.errors import DataError, UserError
from s2s.generation import Input, score
from s2s.generation.inputs import InputFields
from s2s.io.json_files import parse_json
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s.run import Run

EXPECTED = 'expected an object such as {"src": "…", "context": ["…"], "ref": "…", "contrastive": ["…"]}'
Z = 1.959964
"""Quantile 0.975 of the normal distribution"""


class Case(NamedTuple):
    """A source with its reference and wrong outputs."""

    input: Input
    ref: str
    contrastive: list[str]
    phenomenon: str
    location: str
    """File and line, for errors"""


@dataclass(frozen=True)
class JudgedCase:
    """The log-probabilities of the outputs of a case, in nats."""

    phenomenon: str
    ref: float
    contrastive: list[float]

    @property
    def is_right(self) -> bool:
        """Whether the reference is more probable than every other output."""
        return self.ref > max(self.contrastive)


@dataclass
class Accuracy:
    """How many cases are right."""

    n: int = 0
    n_right: int = 0

    @property
    def value(self) -> float:
        """In percent."""
        return 100 * self.n_right / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share of right cases, in percent (Wilson, 1927)."""
        share, spread = self.n_right / self.n, Z * Z / self.n
        centre = (share + spread / 2) / (1 + spread)
        half = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
        return 100 * (centre - half), 100 * (centre + half)


@dataclass
class Accuracies:
    """Of all cases, and of those of each phenomenon, in the order of their first cases."""

    total: Accuracy = field(default_factory=Accuracy)
    phenomena: dict[str, Accuracy] = field(default_factory=dict)

    @classmethod
    def count(cls, cases: Iterable[JudgedCase]) -> Self:
        """Those of these cases."""
        counted = cls()
        for case in cases:
            counted._add(case)
        return counted

    def _add(self, case: JudgedCase) -> None:
        parts = [self.phenomena.setdefault(case.phenomenon, Accuracy())] if case.phenomenon else []
        for one in (self.total, *parts):
            one.n += 1
            one.n_right += case.is_right


def read_cases(path: Path) -> list[Case]:
    """The cases of a file of JSON lines; raises DataError for a line that is none, and for a file without any."""
    cases = [_case(line, f"{path}:{number}") for number, line in numbered_lines(path, "error") if _has_text(line)]
    if not cases:
        raise DataError(f"{path}: is empty; {EXPECTED} on each line")
    return cases


def judged_cases(run: Run, cases: Sequence[Case], device: Any, tokens: int) -> Iterator[JudgedCase]:
    """Every case with the log-probabilities of its outputs, in order."""
    fields = InputFields(run.task, (), {})
    pairs = (Example(one.input.src, tgt, _fields(fields, one)) for one in cases for tgt in (one.ref, *one.contrastive))
    scored = score(run.model, run.task, pairs, device, tokens)
    for one in cases:
        ref, *others = (target.log_prob for target in islice(scored, 1 + len(one.contrastive)))
        yield JudgedCase(one.phenomenon, ref, others)


def _fields(fields: InputFields, case: Case) -> dict[str, Any]:
    try:
        return fields(case.input)
    except UserError as error:
        raise DataError(f"{case.location}: {error}") from None


def _has_text(line: str | Rejected) -> bool:
    return isinstance(line, str) and bool(line.strip())


def _case(line: str | Rejected, location: str) -> Case:
    assert isinstance(line, str), "other lines have raised an error"
    try:
        record = parse_json(line)
    except ValueError as error:
        raise DataError(f"{location}: not JSON ({error}), {EXPECTED}") from None
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in ("src", "ref")):
        raise DataError(f"{location}: no 'src' and 'ref' that are texts, {EXPECTED}")
    others = record.get("contrastive")
    if not isinstance(others, list) or not others or not all(isinstance(text, str) for text in others):
        raise DataError(f"{location}: 'contrastive' is no list of texts, {EXPECTED}")
    phenomenon = record.get("phenomenon") or ""
    return Case(Input(record["src"], record=record), record["ref"], others, str(phenomenon), location)
