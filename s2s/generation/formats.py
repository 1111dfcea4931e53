"""The formats of s2s-generate: how a line becomes an input, and an input with its output becomes lines."""

from __future__ import annotations

__all__ = ["INPUT_FORMATS", "OUTPUT_FORMATS", "InputFormat", "JsonlOutput", "OutputFormat", "Record", "View"]

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from s2s.errors import DataError
from s2s.generation.candidates import UNANSWERED, Input
from s2s.io.json_files import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.generation.candidates import Candidate, Output


@dataclass(frozen=True)
class Record:
    """One line of the input."""

    given: Input
    location: str
    """File and line, for errors"""
    columns: str
    """The input as the first columns of a tsv line"""
    fields: dict[str, Any] | None
    """The input as a JSON object; None for an empty line of a jsonl file, whose output line is empty"""


class InputFormat(Protocol):
    """How lines are read."""

    def __call__(self, line: str, location: str) -> Record:
        """The input in a line; a DataError names the location."""
        ...


class OutputFormat(Protocol):
    """How outputs are written."""

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        """The lines to write for an input."""
        ...

    def n_lines(self, nbest: int) -> int:
        """Lines per input, the same for every input, so that they can be counted; 0: any number."""
        return 1


def read_text(line: str, location: str) -> Record:
    """The line is the input."""
    return Record(Input(line), location, line, {"src": line})


def read_tsv(line: str, location: str) -> Record:
    """The first column is the input; all columns are kept."""
    src = line.partition("\t")[0]
    return Record(Input(src), location, line, {"src": src})


def read_jsonl(line: str, location: str) -> Record:
    """An object with `src`, and optionally `prefix` and `phrases` of the output; all fields are kept."""
    if not line.strip():
        return Record(Input(""), location, "", None)
    try:
        fields = parse_json(line, parse_constant=_no_constant)
        json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise DataError(f"{location}: half of a surrogate pair; write the character whole") from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{location}: bad JSON ({error}); expected an object with 'src', or give input_format=text"
        ) from None
    if not isinstance(fields, dict) or not isinstance(fields.get("src"), str):
        raise DataError(f"{location}: expected a JSON object with the text as 'src', not {line[:60]}")
    return Record(_input(fields, location), location, _one_column(fields["src"]), fields)


def _input(fields: dict[str, Any], location: str) -> Input:
    prefix, phrases = fields.get("prefix") or "", fields.get("phrases") or []
    if not isinstance(prefix, str):
        raise DataError(f"{location}: 'prefix' is the text with which the output begins, not {json.dumps(prefix)[:60]}")
    if not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
        raise DataError(f"{location}: 'phrases' is a list of texts for the output, not {json.dumps(phrases)[:60]}")
    return Input(fields["src"], prefix, tuple(phrases))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


INPUT_FORMATS: dict[str, InputFormat] = {"text": read_text, "tsv": read_tsv, "jsonl": read_jsonl}


class TextOutput(OutputFormat):
    """The best output, one line for each input."""

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [one_line(output.hyp)]


class AlignedOutput(OutputFormat):
    """The output and its alignment, as in `ein Hund ||| 0-0 1-1`: as Marian writes it, in Pharaoh format."""

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [f"{one_line(output.hyp)} ||| {' '.join(_pharaoh(output.best))}"]


class TsvOutput(OutputFormat):
    """The columns of the input, output and score; a line for each candidate."""

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        candidates = [*output.nbest, *[UNANSWERED] * nbest][:nbest]
        return [f"{record.columns}\t{_one_column(c.hyp)}\t{c.score:.4f}" for c in candidates]

    def n_lines(self, nbest: int) -> int:
        return nbest


class JsonlOutput(OutputFormat):
    """The fields of the input, with `hyp`, `score` and, of several outputs, `nbest`."""

    def __init__(self, more: Sequence[str] = ()) -> None:
        """more: further fields of each output, of `s2s.config.generate.FIELDS`."""
        self.more = more

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        if record.fields is None:
            return [""]
        fields = record.fields | _fields(output.best, self.more)
        if nbest > 1:
            fields["nbest"] = [_fields(candidate, self.more) for candidate in output.nbest]
        return [json.dumps(fields, ensure_ascii=False)]


class View(OutputFormat):
    """A task's own way to show an output, on any number of lines."""

    def __init__(self, show: Callable[[str], str]) -> None:
        self.show = show

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        return [self.show(output.hyp) if output.hyp else ""]

    def n_lines(self, nbest: int) -> int:
        return 0


OUTPUT_FORMATS: dict[str, OutputFormat] = {
    "text": TextOutput(),
    "aligned": AlignedOutput(),
    "tsv": TsvOutput(),
    "jsonl": JsonlOutput(),
}
"""Formats of every task"""


def _fields(candidate: Candidate, more: Sequence[str]) -> dict[str, Any]:
    score = round(candidate.score, 4) if math.isfinite(candidate.score) else None
    further: dict[str, list[Any]] = {
        "tokens": candidate.tokens,
        "pieces": candidate.pieces,
        "log_probs": [round(p, 4) for p in candidate.log_probs],
        "align": _pharaoh(candidate),
    }
    return {"hyp": candidate.hyp, "score": score, **{name: further[name] for name in more}}


def _pharaoh(candidate: Candidate) -> list[str]:
    """Source word - word of the output, both from 0."""
    return [f"{source}-{target}" for source, target in candidate.align]


def _one_column(text: str) -> str:
    return one_line(text).replace("\t", " ")


def one_line(text: str) -> str:
    """Line ends become spaces: one output is one line."""
    return re.sub(r"[\r\n]+", " ", text)
