"""Attention as formats of s2s-generate: a page to explore every layer and head, and the paper's Figures 3 to 5.

Shapes: h heads, Q queries, K keys.
"""

from __future__ import annotations

__all__ = ["AttentionFigures", "AttentionPage"]

import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from s2s import ConfigError, make_batch
from s2s.generation import OutputFormat
from s2s_report.attention_lines import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import AttentionMap, Choice, Side
    from s2s.generation import Generator, Output, Record


class Seen(NamedTuple):
    """All attention over one pair."""

    src: list[str]
    """Source tokens, eos last"""
    tgt: list[str]
    """Predicted tokens, eos last: the queries of the target side"""
    maps: list[AttentionMap]
    """Weights [h, Q, K]"""

    def queries(self, one: AttentionMap) -> list[str]:
        """Names of its rows."""
        return self.src if one.queries == "src" else self.tgt

    def keys(self, one: AttentionMap) -> list[str]:
        """Names of its columns; on the target side the first is what stands before the output."""
        return self.src if one.keys == "src" else ["<s>", *self.tgt[:-1]]


class AttentionOutput(OutputFormat):
    """Outputs with all that the model attended to; ConfigError if the architecture gives no attention."""

    def __init__(self, config: Choice, generator: Generator) -> None:
        self.generator = generator
        self.n_written = 0
        if not self._maps([], []):
            raise ConfigError("this architecture gives no attention (Seq2Seq.attention_maps); choose another format")

    def n_lines(self, nbest: int) -> int:
        return 0

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        head = [] if self.n_written else [self.head()]
        self.n_written += 1
        if not output.tokens:
            return [*head, f"<p>{escape(output.src)}: no output</p>"]
        return [*head, *self.body(self._seen(output), output, self.n_written)]

    def head(self) -> str:
        """What stands before the first output."""
        style = files("s2s_report").joinpath("style.css").read_text(encoding="utf-8")
        script = files("s2s_report").joinpath("attention.js").read_text(encoding="utf-8")
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Attention</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{style}</style><script>{script}</script><h1>Attention</h1>"
        )

    def body(self, seen: Seen, output: Output, number: int) -> list[str]:
        """The lines of one output."""
        raise NotImplementedError

    def _seen(self, output: Output) -> Seen:
        task, eos = self.generator.task, self.generator.task.vocab.eos
        ids = task.encode_source([output.src])[0]
        src, tgt = self._names([*ids, eos], "src"), [*task.pieces(output.tokens, output.src), "</s>"]
        return Seen([_shown(name) for name in src], [_shown(name) for name in tgt], self._maps(ids, output.tokens))

    @torch.no_grad()
    def _maps(self, src: Sequence[int], tgt: Sequence[int]) -> list[AttentionMap]:
        search = self.generator.search
        batch = make_batch([(list(src), list(tgt))], self.generator.task.vocab).to(search.device)
        maps = search.model.eval().attention_maps(batch.src, batch.src_pad, batch.tgt_in)
        return [one._replace(weights=one.weights[0].float().cpu()) for one in maps]

    def _names(self, ids: Sequence[int], side: Side) -> list[str]:
        names = self.generator.task.vocabulary(side)
        if names is None:
            return [str(i) for i in ids]
        return [name if isinstance(name, str) else name[-1] for name in (names[i] for i in ids)]


class AttentionPage(AttentionOutput):
    """Every kind, layer and head of attention, for the token under the mouse or the keyboard's focus."""

    def body(self, seen: Seen, output: Output, number: int) -> list[str]:
        data = json.dumps([_as_json(seen, one) for one in seen.maps], ensure_ascii=False).replace("</", "<\\/")
        title = escape(f"{output.src} → {output.hyp}")
        return [
            f'<section class="attention" id="a{number}"><h2>{title}</h2>'
            f'<script type="application/json">{data}</script></section>',
        ]


class AttentionFigures(AttentionOutput):
    """Figures 3, 4 and 5 of the paper for every input: lines from tokens to those that they attend to."""

    def body(self, seen: Seen, output: Output, number: int) -> list[str]:
        kinds = [one for one in seen.maps if one.kind == "encoder"] or list(seen.maps)
        of_kind = [one for one in kinds if one.kind == kinds[0].kind]
        layer = of_kind[max(0, len(of_kind) - 2)]  # the paper shows layer 5 of 6
        parts = [f"<section><h2>{escape(output.src)}</h2>"]
        for svg, caption in figures(layer, seen.queries(layer), seen.keys(layer)):
            said = escape(caption)
            parts.append(f'<figure role="img" aria-label="{said}">{svg}<figcaption>{said}</figcaption></figure>')
        return [*parts, "</section>"]


def _as_json(seen: Seen, one: AttentionMap) -> dict[str, Any]:
    """Weights in thousandths, which is as fine as a shade is seen."""
    weights = (one.weights * 1000).round().int().tolist()
    name = f"{one.kind} {one.layer}" if one.layer else one.kind
    return {"name": name, "queries": seen.queries(one), "keys": seen.keys(one), "weights": weights}


def _shown(piece: str) -> str:
    """A token as people read it: ▁ begins a word."""
    return piece.replace("▁", " ").strip() or "␣"
