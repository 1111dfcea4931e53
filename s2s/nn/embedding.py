"""Embeddings of tokens and of positions, and logits of vectors, from matrices that may be shared (section 3.4).

Shapes: V vocabulary, D = d_model.
"""

from __future__ import annotations

__all__ = ["TABLES", "Embeddings", "Sinusoids"]

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend.device_types import device_of
from s2s.backend.linear import HasSelect, HasWeightRows, apply_linear
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from s2s.backend.linear import LinearMap
    from s2s.nn.words import SourceWords
    from s2s.task import Side, Vocab

LONGEST_WAVE = 10_000.0

Sharing = Literal["shared", "target", "inputs", "none"]

TABLES: dict[Sharing, tuple[str, str, str]] = {
    "shared": ("shared", "shared", "shared"),
    "target": ("src", "tgt", "tgt"),
    "inputs": ("shared", "shared", "softmax"),
    "none": ("src", "tgt", "softmax"),
}
"""The matrices of source, target and softmax. Each is stored once, under one name: a shared matrix cannot
come apart when a model is moved, saved, or built on the meta device."""


class Embeddings(nn.Module):
    """The matrices of source, target and softmax."""

    prepacked: LinearMap | None = None
    """Computes the product with the softmax's matrix instead; see `s2s.backend.linear`"""

    def __init__(
        self, vocab: Vocab, d_model: int, sharing: Sharing, *, scaled: bool = True, has_bias: bool = False
    ) -> None:
        """scaled: embeddings are multiplied by sqrt(D). has_bias: of the logits."""
        super().__init__()
        if sharing in ("shared", "inputs") and not (vocab.joint and vocab.src == vocab.tgt):
            raise ConfigError(
                f"arch.share_embeddings={sharing} needs one vocabulary for both sides, but this task has two (of "
                f"{vocab.src} source and {vocab.tgt} target tokens); give arch.share_embeddings=target or "
                "none, or make the vocabulary joint (task.joint=true, where the task has that option)"
            )
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.has_words = bool(vocab.word_begins)
        self._source, self._target, self._softmax = TABLES[sharing]
        for name, rows in zip(TABLES[sharing], (vocab.src, vocab.tgt, vocab.tgt), strict=True):
            self.register_parameter(name, nn.Parameter(torch.empty(rows, d_model)))
        self._pads = {self._source: vocab.src_pad, self._target: vocab.pad, self._softmax: vocab.pad}
        self.bias = nn.Parameter(torch.empty(vocab.tgt)) if has_bias else None

    def source(self, ids: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        return self._look_up(self._source, ids)

    def target(self, ids: Tensor) -> Tensor:
        """[...] -> [..., D]"""
        return self._look_up(self._target, ids)

    @property
    def target_table(self) -> Tensor | None:
        """[V, D], of which `target` returns rows times `scale`; None: freed, its rows are those of `prepacked`"""
        table: Tensor | None = getattr(self, self._target)
        return table

    @property
    def source_table(self) -> Tensor | None:
        """The same of `source`"""
        table: Tensor | None = getattr(self, self._source)
        return table

    def free_table(self) -> None:
        """Free the softmax's matrix, whose rows `prepacked` has, unless source words are sums of them."""
        if not (self.has_words and self._source == self._softmax):
            setattr(self, self._softmax, None)

    def source_words(self, words: SourceWords, src: Tensor, pad: Tensor) -> tuple[Tensor, Tensor]:
        """`SourceWords.pool` with the source's matrix."""
        x, pad = words.pool(self.get_parameter(self._source), src, pad)
        return x * self.scale, pad

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> [..., V]"""
        return self.prepacked(hidden) if self.prepacked else apply_linear(hidden, *self.weight_and_bias())

    def output_matrix(self) -> Tensor | None:
        """The matrix of the softmax, [V, D], if logits are products with it alone"""
        plain = type(self) is Embeddings and not (self.prepacked or self.bias is not None or "logits" in vars(self))
        return self.get_parameter(self._softmax) if plain else None

    def logits_of(self, ids: Tensor) -> LinearMap:
        """The function [..., D] -> [..., U], logits of the tokens ids [U] alone."""
        if isinstance(self.prepacked, HasSelect):
            return self.prepacked.select(ids)
        if self.prepacked is not None:
            return lambda hidden: self.logits(hidden).index_select(-1, ids)
        weight, bias = self.weight_and_bias()
        chosen = weight[ids], None if bias is None else bias[ids]
        return lambda hidden: apply_linear(hidden, *chosen)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """The matrix of the softmax, [V, D], and its bias, [V]"""
        return self.get_parameter(self._softmax), self.bias

    def vocab_rows(self, prefix: str) -> dict[str, Side]:
        """`Seq2Seq.vocab_rows` of a model that holds this under `prefix`; a shared matrix counts as the target's."""
        rows: dict[str, Side] = {self._source: "src", self._target: "tgt", self._softmax: "tgt"}
        if self.bias is not None:
            rows["bias"] = "tgt"
        return {f"{prefix}.{name}": side for name, side in rows.items()}

    def _look_up(self, name: str, ids: Tensor) -> Tensor:
        table: Tensor | None = getattr(self, name)
        if table is None:
            assert isinstance(self.prepacked, HasWeightRows)
            return self.prepacked.weight_rows(ids) * self.scale
        return F.embedding(ids, table, padding_idx=self._pads[name]) * self.scale

    @torch.no_grad()
    def init_weights(self) -> None:
        """N(0, 1 / D), so that a scaled embedding has unit variance; padding and bias are zero."""
        for name, pad in self._pads.items():
            table = self.get_parameter(name)
            nn.init.normal_(table, std=1 / math.sqrt(table.size(1)))
            table[pad].zero_()
        if self.bias is not None:
            self.bias.zero_()


class Sinusoids(nn.Module):
    """Sines and cosines of wavelengths from 2 pi to 10000 * 2 pi (section 3.5); any length, no weights.

    Positions are a tensor of integers, so that sentences may lie in memory in any way.

    They are computed when needed, so there is nothing to move between devices or to lose on the meta device. On a
    CPU those of the first positions are kept: they took a tenth of the time of decoding one sentence with a tiny model.
    """

    def __init__(self, d_model: int, layout: Literal["paper", "t2t"], *, offset: int = 0) -> None:
        """offset: the position of a sentence's first token"""
        super().__init__()
        self.d_model, self.layout, self.offset = d_model, layout, offset
        self.cache: Tensor | None = None

    def forward(self, position: Tensor, dtype: torch.dtype) -> Tensor:
        """[...] -> [..., D], computed in the device's widest type: in float32 the sine of a large
        position loses digits."""
        n_waves = self.d_model // 2
        wave = torch.arange(n_waves, dtype=device_of(position.device).wide_dtype, device=position.device)
        # The released code spreads its wavelengths over n - 1 steps and so reaches 10000 itself.
        n_steps = n_waves if self.layout == "paper" else max(n_waves - 1, 1)
        angle = position[..., None] * torch.exp(wave * (-math.log(LONGEST_WAVE) / n_steps))  # [..., D / 2]
        if self.layout == "t2t":
            return torch.cat([angle.sin(), angle.cos()], dim=-1).to(dtype)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(dtype)

    def first(self, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[n, D], of a sentence's first n tokens"""
        if device.type != "cpu" or torch.compiler.is_compiling():
            return self(torch.arange(self.offset, self.offset + n, device=device), dtype)
        kept = self.cache  # another thread may put a shorter one there
        if kept is None or kept.dtype is not dtype or len(kept) < n:
            self.cache = kept = self(torch.arange(self.offset, self.offset + max(64, 2 * n)), dtype)
        return kept[:n]

    def check(self, length: int) -> None:
        """Any length is accepted."""
