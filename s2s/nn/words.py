"""Source words from their parts: several source tokens, one encoder position.

Shapes: B sentences, S source tokens, W words of the longest, eos counted as one, T target length, D width.
"""

from __future__ import annotations

__all__ = ["SourceWords"]

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend.fused import FusedWords
from s2s.tensors import host_copy, to_device

if TYPE_CHECKING:
    from s2s.task import Vocab


class WordPositions(NamedTuple):
    """The words of sources, made by the host, so that no shape depends on numbers of the device."""

    first: Tensor
    """[N], the first token of each word, sentence by sentence, as an index into [B * S]"""
    place: Tensor
    """[N], the same of the word itself, as an index into [B * W]"""
    pad: Tensor
    """[B, W], False where a sentence has a word; W is 1 if none has any"""


class SourceWords(nn.Module):
    """Which tokens make up a word, according to `Vocab.word_begins`."""

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        self.vocab = vocab
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}  # not buffers: no weights, known on any device

    def fused(self, *, pooled: bool) -> FusedWords:
        """Which tokens make up words, for functions; pooled: whether the encoder reads `pool`."""
        return FusedWords(self._on(torch.device("cpu"))[0], pooled, self.vocab.labels)

    def pool(self, embedding: Tensor, src: Tensor, pad: Tensor) -> tuple[Tensor, Tensor]:
        """embedding [V, D], src, pad [B, S] -> vectors [B, W, D], 0 at padding, and padding [B, W].

        A word's vector is its first token's embedding, plus the others' divided by the square root of their number. In
        training, tokens become unknown with the probabilities in `Vocab.unknown`.
        """
        ignored = host_copy(pad) | self._labels(host_copy(src))
        at, tokens = self._positions(host_copy(src), ignored), (~ignored).flatten().nonzero()[:, 0]
        unknown = self._on(src.device)[1]
        if self.training and self.vocab.unknown:
            src = src.masked_fill(torch.rand(src.shape, device=src.device) < unknown[src], self.vocab.unk)
        return self._padded(self._sums(embedding, src, tokens, at.first), at)

    def states(self, hidden: Tensor, src: Tensor, pad: Tensor) -> Tensor:
        """The encoder's states [B, S, D] of all tokens -> those of the tokens that begin words, [B, W, D]"""
        at = self._positions(host_copy(src), host_copy(pad))
        return self._padded(hidden.flatten(0, 1).index_select(0, at.first.to(hidden.device)), at)[0]

    def spread(self, weights: Tensor, src: Tensor, pad: Tensor) -> Tensor:
        """Weights of words [B, T, W] -> of tokens [B, T, S]: a word's first token gets all of its weight."""
        at = self._positions(host_copy(src), host_copy(pad))
        word_weights = weights.mT.flatten(0, 1).index_select(0, at.place.to(weights.device))  # [N, T]
        spread = weights.new_zeros(src.numel(), weights.size(1))
        return spread.index_copy(0, at.first.to(weights.device), word_weights).view(*src.shape, -1).mT

    def labels(self, src: Tensor, pad: Tensor) -> Tensor:
        """[B, S] -> [B, W], the label of each word, counted from the first of `Vocab.labels`; -1: it has none.

        On the host, since their number decides how much is computed.
        """
        src, pad = host_copy(src), host_copy(pad)
        first, is_label = self.begins_word(src, pad), self._labels(src)
        labels = torch.full(self._positions(src, pad).pad.shape, -1)
        rows, positions = is_label.nonzero(as_tuple=True)
        words = first.cumsum(1)[rows, positions] - 1
        return labels.index_put((rows, words), src[rows, positions] - self.vocab.labels.start)

    def begins_word(self, src: Tensor, pad: Tensor) -> Tensor:
        """[B, S], True at the first token of a word; no sentence continues the word of another."""
        first = self._on(src.device)[0][src]
        first[:, :1] = True
        return first & ~pad

    def longest(self, src: Tensor, pad: Tensor) -> int:
        """src, pad [B, S] -> the number of words of the longest source, at least 1"""
        return max(1, int(self.begins_word(host_copy(src), host_copy(pad)).sum(1).max()))

    def _labels(self, src: Tensor) -> Tensor:
        """[B, S], True at labels"""
        return (src >= self.vocab.labels.start) & (src < self.vocab.labels.stop)

    def _positions(self, src: Tensor, pad: Tensor) -> WordPositions:
        """src, pad [B, S], on the host"""
        begins = self.begins_word(src, pad)
        n_words = begins.sum(1, keepdim=True)
        places = torch.arange(max(1, int(n_words.max()))) < n_words  # [B, W]
        first, place = (at.flatten().nonzero()[:, 0] for at in (begins, places))
        return WordPositions(first, place, ~places)

    def _sums(self, embedding: Tensor, src: Tensor, tokens: Tensor, first: Tensor) -> Tensor:
        """src [B, S]; its tokens that count, and the first of each word, as indices of the host into [B * S] -> vectors
        of all words [N, D]"""
        starts = torch.searchsorted(tokens, first)
        n_parts = torch.diff(starts, append=starts.new_full((1,), len(tokens))) - 1
        scale = n_parts.clamp(min=1).to(embedding.dtype).rsqrt().repeat_interleave(n_parts + 1)
        scale[starts] = 1.0
        tokens, starts, scale = (x.to(embedding.device) for x in (tokens, starts, scale))
        return F.embedding_bag(
            src.flatten().index_select(0, tokens), embedding, starts, mode="sum", per_sample_weights=scale
        )

    def _padded(self, words: Tensor, at: WordPositions) -> tuple[Tensor, Tensor]:
        """Vectors of all words, sentence by sentence, [N, D] -> [B, W, D] and padding [B, W]"""
        padded = words.new_zeros(at.pad.numel(), words.size(-1))
        padded = padded.index_copy(0, at.place.to(words.device), words)
        return padded.view(*at.pad.shape, -1), to_device(at.pad, words.device)

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Which ids begin words, and their probabilities of becoming unknown, on a device; copied at the first use."""
        if device not in self._tables:
            vocab = self.vocab
            begins = torch.tensor(vocab.word_begins or [True] * vocab.src, device=device)
            begins[vocab.src_eos] = True
            self._tables[device] = begins, torch.tensor(vocab.unknown, device=device)
        return self._tables[device]
