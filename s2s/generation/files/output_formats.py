"""Outputs as lines of tsv and jsonl files."""

from __future__ import annotations

__all__ = ["JsonlOutput", "TsvOutput"]

import json
import math
from typing import TYPE_CHECKING, Any

from s2s.generation.candidates import NO_OUTPUT, Candidate, Output
from s2s.generation.formats import OutputFormat, Record, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.generation.generator import Generator
    from s2s.registry import Choice


FURTHER = ("tokens", "pieces", "log_probs", "align")
"""What `fields` can add to an output"""


class TsvOutput(OutputFormat):
    """The columns of the input, output and score; a line for each candidate."""

    writes_nbest = True

    def __init__(self, config: Choice, generator: Generator) -> None:
        pass

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        candidates = [*output.nbest, *[NO_OUTPUT] * nbest][:nbest]
        texts = [one_line(c.hyp).replace("\t", " ") for c in candidates]
        return [f"{record.columns}\t{text}\t{c.score:.4f}" for text, c in zip(texts, candidates, strict=True)]

    def n_lines(self, nbest: int) -> int:
        return nbest


class JsonlOutput(OutputFormat):
    """The fields of the input, with `hyp`, `score`, those that `fields` names and, for several outputs, `nbest`.

    `finished` is false where the limit on the length has cut the output. `segments` are the sentences of an input that
    was split, each with `src` and the same fields.

    In an input with a `hyp`, such as an earlier output, all of these describe that `hyp`, and are replaced or left out.
    """

    writes_nbest = True

    def __init__(self, config: Choice, generator: Generator) -> None:
        self.more = generator.config.fields

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        if record.fields is None:
            return [""]
        earlier = (*FURTHER, "nbest", "finished", "segments") if "hyp" in record.fields else ()
        kept = {name: value for name, value in record.fields.items() if name not in earlier}
        fields = kept | self._fields(output, nbest)
        if output.parts:
            fields["segments"] = [{"src": part.src} | self._fields(part, nbest) for part in output.parts]
        return [json.dumps(fields, ensure_ascii=False)]

    def _fields(self, output: Output, nbest: int) -> dict[str, Any]:
        fields = _fields(output.best, self.more)
        if nbest > 1:
            fields["nbest"] = [_fields(candidate, self.more) for candidate in output.nbest]
        return fields


def _fields(candidate: Candidate, more: Sequence[str]) -> dict[str, Any]:
    score = round(candidate.score, 4) if math.isfinite(candidate.score) else None
    further: dict[str, list[Any]] = {
        "tokens": candidate.tokens,
        "pieces": candidate.pieces,
        "log_probs": [round(p, 4) for p in candidate.log_probs],
        "align": candidate.pharaoh(),
    }
    cut: dict[str, Any] = {} if candidate.finished else {"finished": False}
    return {"hyp": candidate.hyp, "score": score, **cut, **{name: further[name] for name in more}}
