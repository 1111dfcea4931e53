"""Source words from their parts: several source tokens, one encoder position.

Shapes: B sentences, S source tokens, W words of the longest, eos counted as one, T target length, D width.
"""

from __future__ import annotations

__all__ = ["SourceWords"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from s2s.task import Vocab


class SourceWords(nn.Module):
    """Which tokens make up a word, according to `Vocab.word_begins`."""

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        self.vocab = vocab
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}  # not buffers: no weights, known on any device

    def pool(self, embedding: Tensor, src: Tensor, pad: Tensor) -> tuple[Tensor, Tensor]:
        """embedding [V, D], src, pad [B, S] -> vectors [B, W, D], 0 at padding, and padding [B, W].

        A word's vector is its first token's embedding, plus the others' divided by the square root of their number. In
        training, tokens become unknown with the probabilities in `Vocab.unknown`.
        """
        pad = pad | self._labels(src)
        first = self.begins_word(src, pad)
        unknown = self._on(src.device)[1]
        if self.training and self.vocab.unknown:
            src = src.masked_fill(torch.rand(src.shape, device=src.device) < unknown[src], self.vocab.unk)
        return self._padded(self._sums(embedding, src[~pad], first[~pad]), first)

    def states(self, hidden: Tensor, src: Tensor, pad: Tensor) -> Tensor:
        """The encoder's states [B, S, D] of all tokens -> those of the tokens that begin words, [B, W, D]"""
        first = self.begins_word(src, pad)
        return self._padded(hidden[first], first)[0]

    def spread(self, weights: Tensor, src: Tensor, pad: Tensor) -> Tensor:
        """Weights of words [B, T, W] -> of tokens [B, T, S]: a word's first token gets all of its weight."""
        first = self.begins_word(src, pad)
        word_weights = weights.mT[self._at(first)]  # [N, T]
        return weights.new_zeros(*src.shape, weights.size(1)).masked_scatter(first[..., None], word_weights).mT

    def labels(self, src: Tensor, pad: Tensor) -> Tensor:
        """[B, S] -> [B, W], the label of each word, counted from the first of `Vocab.labels`; -1: it has none"""
        first, is_label = self.begins_word(src, pad), self._labels(src)
        labels = torch.full(self._at(first).shape, -1, device=src.device)
        rows, positions = is_label.nonzero(as_tuple=True)
        words = first.cumsum(1)[rows, positions] - 1
        return labels.index_put((rows, words), src[rows, positions] - self.vocab.labels.start)

    def begins_word(self, src: Tensor, pad: Tensor) -> Tensor:
        """[B, S], True at the first token of a word; no sentence continues the word of another."""
        first = self._on(src.device)[0][src]
        first[:, :1] = True
        return first & ~pad

    def _labels(self, src: Tensor) -> Tensor:
        """[B, S], True at labels"""
        return (src >= self.vocab.labels.start) & (src < self.vocab.labels.stop)

    def _sums(self, embedding: Tensor, tokens: Tensor, first: Tensor) -> Tensor:
        """Concatenated tokens of all words [N], and which are the first of one -> vectors [number of words, D]"""
        starts = first.nonzero().squeeze(1)
        n_parts = torch.diff(starts, append=starts.new_full((1,), len(tokens))) - 1
        scale = n_parts.clamp(min=1).to(embedding.dtype).rsqrt().repeat_interleave(n_parts + 1).masked_fill(first, 1.0)
        return F.embedding_bag(tokens, embedding, starts, mode="sum", per_sample_weights=scale)

    def _padded(self, words: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of all words, sentence by sentence -> [B, W, D] and padding [B, W]"""
        at = self._at(first)
        return words.new_zeros(*at.shape, words.size(-1)).masked_scatter(at[..., None], words), ~at

    def _at(self, first: Tensor) -> Tensor:
        """[B, S] -> [B, W], True where a sentence has a word; W is 1 if none has any"""
        n_words = first.sum(1, keepdim=True)
        return torch.arange(max(1, int(n_words.max())), device=first.device) < n_words

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Which ids begin words, and their probabilities of becoming unknown, on a device; copied at the first use."""
        if device not in self._tables:
            vocab = self.vocab
            begins = torch.tensor(vocab.word_begins or [True] * vocab.src, device=device)
            begins[vocab.src_eos] = True
            self._tables[device] = begins, torch.tensor(vocab.unknown, device=device)
        return self._tables[device]
