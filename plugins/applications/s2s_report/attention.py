"""Attention as formats of s2s-generate: a page to explore every layer and head, and the paper's Figures 3 to 5.

Shapes: h heads, Q queries, K keys.
"""

from __future__ import annotations

__all__ = ["AttentionFigures", "AttentionPage", "PairAttention", "attention_of", "explorer", "script"]

import json
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from s2s import ConfigError, make_batch
from s2s.generation import OutputFormat
from s2s.tensors import host_copies
from s2s_report.attention_lines import figures
from s2s_report.figure_files import FigureFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import AttentionMap, Choice, Seq2Seq, Side, Task
    from s2s.generation import Generator, Output, Record


class PairAttention(NamedTuple):
    """All attention over one pair; tokens are written as by the tokeniser, where ▁ begins a word."""

    src: list[str]
    """Source tokens, eos last"""
    tgt: list[str]
    """Predicted tokens, eos last: the queries of the target side"""
    maps: list[AttentionMap]
    """Weights [h, Q, K]"""

    def queries(self, one: AttentionMap) -> list[str]:
        """Tokens of the map's rows."""
        return self.src if one.queries == "src" else self.tgt

    def keys(self, one: AttentionMap) -> list[str]:
        """Tokens of the map's columns; on the target side the first is bos."""
        return self.src if one.keys == "src" else ["<s>", *self.tgt[:-1]]

    @property
    def words(self) -> str:
        """What each target token attends to most, averaged over heads, in the last layer that attends to the source."""
        cross = next((one for one in reversed(self.maps) if one.queries == "tgt" and one.keys == "src"), self.maps[-1])
        most = cross.weights.mean(0).max(-1)  # values and indices [Q]
        keys = _shown(self.keys(cross))
        said = zip(_shown(self.queries(cross)), most.indices.tolist(), most.values.tolist(), strict=True)
        return ", ".join(f"{query} ← {keys[k]} {weight:.0%}" for query, k, weight in said)


@torch.no_grad()
def attention_of(model: Seq2Seq, task: Task, device: torch.device, src: str, tokens: Sequence[int]) -> PairAttention:
    """All attention while the output `tokens` are predicted for `src`; no maps if the architecture provides none."""
    ids = task.encode_source([src])[0] if src else []
    batch = make_batch([(list(ids), list(tokens))], task.vocab).to(device)
    maps = model.eval().attention_maps(batch.src, batch.src_pad, batch.tgt_in)
    names, pieces = (
        _names(task, task.vocab.ended(ids), "src"),
        [*task.pieces([*task.vocab.starting_tokens[1:], *tokens], src), "</s>"],
    )
    weights = host_copies([one.weights[0].float() for one in maps])
    pair_maps = [one._replace(weights=of_map) for one, of_map in zip(maps, weights, strict=True)]
    return PairAttention(names, pieces, pair_maps)


def explorer(seen: PairAttention, title: str = "", anchor: str = "") -> str:
    """Every kind, layer and head of attention, for `script` to draw."""
    data = json.dumps([_as_json(seen, one) for one in seen.maps], ensure_ascii=False).replace("</", "<\\/")
    head = f"<h2>{escape(title)}</h2>" if title else ""
    name = f' id="{anchor}"' if anchor else ""
    return f'<section class="attention"{name}>{head}<script type="application/json">{data}</script></section>'


def script() -> str:
    """The page's own script."""
    return files("s2s_report").joinpath("attention.js").read_text(encoding="utf-8")


class AttentionOutput(OutputFormat):
    """Outputs with all attention of the model; ConfigError if the architecture provides none."""

    def __init__(self, config: Choice, generator: Generator) -> None:
        self.generator = generator
        self.n_written = 0
        if not self._attention_of("", []).maps:
            raise ConfigError("this architecture gives no attention (Seq2Seq.attention_maps); choose another format")

    def n_lines(self, nbest: int) -> int:
        return 0

    def render(self, record: Record, output: Output, nbest: int) -> list[str]:
        head = [] if self.n_written else [self.head()]
        return [*head, *(line for part in output.parts or [output] for line in self._sentence(part))]

    def _sentence(self, output: Output) -> list[str]:
        self.n_written += 1
        if not output.tokens:
            return [f"<p>{escape(output.src)}: no output</p>"]
        return self.body(self._attention_of(output.src, output.tokens), output, self.n_written)

    def head(self) -> str:
        """The HTML before the first output."""
        style = files("s2s_report").joinpath("style.css").read_text(encoding="utf-8")
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Attention</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{style}</style><script>{script()}</script><h1>Attention</h1>"
        )

    def body(self, seen: PairAttention, output: Output, number: int) -> list[str]:
        """The HTML lines of one output."""
        raise NotImplementedError

    def _attention_of(self, src: str, tokens: Sequence[int]) -> PairAttention:
        search = self.generator.search.with_model()
        return attention_of(search.model, self.generator.task, search.device, src, tokens)


class AttentionPage(AttentionOutput):
    """Every kind, layer and head of attention, for the token under the mouse or with the keyboard focus."""

    def body(self, seen: PairAttention, output: Output, number: int) -> list[str]:
        return [explorer(seen, f"{output.src} → {output.hyp}", f"a{number}")]


class AttentionFigures(AttentionOutput):
    """Figures 3, 4 and 5 of the paper for every input: lines from tokens to those that they attend to."""

    def __init__(self, config: Choice, generator: Generator) -> None:
        super().__init__(config, generator)
        options: Any = generator.config
        name, overwrite = options.figures_folder, options.overwrite
        self.folder = FigureFolder(name, overwrite=overwrite) if name else None

    def body(self, seen: PairAttention, output: Output, number: int) -> list[str]:
        kinds = [one for one in seen.maps if one.kind == "encoder"] or list(seen.maps)
        same_kind = [one for one in kinds if one.kind == kinds[0].kind]
        layer = same_kind[max(0, len(same_kind) - 2)]  # the paper shows layer 5 of 6
        parts = [f"<section><h2>{escape(output.src)}</h2>"]
        drawn = list(figures(layer, _shown(seen.queries(layer)), _shown(seen.keys(layer))))
        if self.folder:
            self.folder.write(number, drawn)
        for one in drawn:
            said = escape(one.caption)
            picture = one.drawing.svg()
            parts.append(f'<figure role="img" aria-label="{said}">{picture}<figcaption>{said}</figcaption></figure>')
        return [*parts, "</section>"]


def _as_json(seen: PairAttention, one: AttentionMap) -> dict[str, Any]:
    """A map with weights in thousandths; finer shades are not distinguishable."""
    weights = (one.weights * 1000).round().int().tolist()
    name = f"{one.kind} {one.layer}" if one.layer else one.kind
    return {"name": name, "queries": seen.queries(one), "keys": seen.keys(one), "weights": weights}


def _names(task: Task, ids: Sequence[int], side: Side) -> list[str]:
    names = task.vocabulary(side)
    if names is None:
        return [str(i) for i in ids]
    return [name if isinstance(name, str) else name[-1] for name in (names[i] for i in ids)]


def _shown(pieces: Sequence[str]) -> list[str]:
    """Tokens in human-readable form."""
    return [piece.replace("▁", " ").strip() or "␣" for piece in pieces]
