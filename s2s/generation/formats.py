"""The formats of s2s-generate: how a line becomes an input, and an input with its outputs lines again."""

from __future__ import annotations

__all__ = ["FORMATS", "Format", "Jsonl", "Record", "Text", "Tsv", "View", "find_format"]

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from s2s.errors import ConfigError, DataError, did_you_mean
from s2s.generation import UNANSWERED, Input

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.config import GenerateConfig
    from s2s.generation import Candidate, Output
    from s2s.task import Task


@dataclass(frozen=True)
class Record:
    """One line of inputs."""

    given: Input
    place: str
    """File and line, for errors"""
    kept: Any = None
    """What else was in the line, to be written again with the output"""


class Format(Protocol):
    """How inputs are read and outputs written."""

    def parse(self, line: str, place: str) -> Record:
        """The input in a line; an error names the place."""
        ...

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        """The lines to write for an input."""
        ...

    def n_lines(self, nbest: int) -> int:
        """How many they are: the same for every input, so that lines tell how many inputs are done; 0: any number."""
        return 1


class Text(Format):
    """One line in, one line out, always."""

    def parse(self, line: str, place: str) -> Record:
        return Record(Input(line), place)

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [one_line(output.hyp)]


class Aligned(Text):
    """The output and its alignment, as in `ein Hund ||| 0-0 1-1`: what Marian writes, and Pharaoh's pairs."""

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [f"{one_line(output.hyp)} ||| {' '.join(_pharaoh(output.best))}"]


class Tsv(Format):
    """The source is the first column; output and score come after the last, a line for each candidate."""

    def parse(self, line: str, place: str) -> Record:
        return Record(Input(line.partition("\t")[0]), place, line)

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        candidates = [*output.nbest, *[UNANSWERED] * nbest][:nbest]
        return [f"{record.kept}\t{one_line(c.hyp).replace(chr(9), ' ')}\t{c.score:.4f}" for c in candidates]

    def n_lines(self, nbest: int) -> int:
        return nbest


class Jsonl(Format):
    """Objects with `src`; all fields are kept; `hyp`, `score` and, of several, `nbest` are added.

    `prefix` says how the output begins, and the list `phrases` what stands in it.

    `more` names what else is said of each output, of `s2s.config.commands.FIELDS`.
    """

    def __init__(self, more: Sequence[str] = ()) -> None:
        self.more = more

    def parse(self, line: str, place: str) -> Record:
        if not line.strip():
            return Record(Input(""), place)
        try:
            fields = json.loads(line, parse_constant=_no_constant)
            json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise DataError(f"{place}: half of a surrogate pair; write the character whole") from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: bad JSON ({error}); expected an object with 'src'") from None
        if not isinstance(fields, dict) or not isinstance(fields.get("src"), str):
            raise DataError(f"{place}: expected a JSON object with the text as 'src', not {line[:60]}")
        return Record(_input(fields, place), place, fields)

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        if record.kept is None:  # an empty line stays one, so that lines keep their numbers
            return [""]
        fields = record.kept | _fields(output.best, self.more)
        if nbest > 1:
            fields["nbest"] = [_fields(candidate, self.more) for candidate in output.nbest]
        return [json.dumps(fields, ensure_ascii=False)]


def _input(fields: dict[str, Any], place: str) -> Input:
    prefix, phrases = fields.get("prefix") or "", fields.get("phrases") or []
    if not isinstance(prefix, str):
        raise DataError(f"{place}: 'prefix' is the text with which the output begins, not {json.dumps(prefix)[:60]}")
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
        raise DataError(f"{place}: 'phrases' is a list of texts for the output, not {json.dumps(phrases)[:60]}")
    return Input(fields["src"], prefix, tuple(phrases))


def _fields(candidate: Candidate, more: Sequence[str]) -> dict[str, Any]:
    score = round(candidate.score, 4) if math.isfinite(candidate.score) else None
    of_symbols: dict[str, list[Any]] = {
        "tokens": candidate.tokens,
        "pieces": candidate.pieces,
        "log_probs": [round(p, 4) for p in candidate.log_probs],
        "align": _pharaoh(candidate),
    }
    return {"hyp": candidate.hyp, "score": score, **{name: of_symbols[name] for name in more}}


def _pharaoh(candidate: Candidate) -> list[str]:
    """Source word - word of the output, both from 0."""
    return [f"{source}-{target}" for source, target in candidate.align]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def one_line(text: str) -> str:
    """Line ends become spaces: a reader must not take one output for two."""
    return re.sub(r"[\r\n]+", " ", text)


class View(Text):
    """A task's own way to show an output, on any number of lines."""

    def __init__(self, show: Callable[[str], str]) -> None:
        self.show = show

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [self.show(output.hyp) if output.hyp else ""]

    def n_lines(self, nbest: int) -> int:
        return 0


FORMATS: dict[str, Format] = {"text": Text(), "aligned": Aligned(), "tsv": Tsv(), "jsonl": Jsonl()}
"""Those of every task"""


def find_format(config: GenerateConfig, task: Task) -> Format:
    """What `format` names, or an error that says what there is; a view cannot be continued."""
    name = config.format
    if name not in FORMATS and name not in task.views:
        hint = did_you_mean(name, [*FORMATS, *task.views])
        raise ConfigError(f"format={name}: no such format of s2s-generate or of task={task.config.name}.{hint}")
    if name in FORMATS:
        return Jsonl(config.fields) if name == "jsonl" else FORMATS[name]
    if config.resume:
        raise ConfigError(f"resume=true counts lines, of which format={name} has any number; give format=text")
    return View(task.views[name])
