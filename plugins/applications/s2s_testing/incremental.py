"""Incremental decoding of a model, compared with `decode` of each whole prefix.

Shapes: B sentences, K hypotheses, t tokens so far.
"""

from __future__ import annotations

__all__ = ["LENGTHS", "IncrementalDecoding", "assert_close", "batch_of", "pairs", "regular"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s import Batch, make_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Seq2Seq, Vocab

LENGTHS = ((5, 4), (2, 6), (7, 1), (1, 3))
"""Source and target lengths of the sentences with which architectures are checked."""

TOLERANCE = 1e-4
"""Largest allowed difference between numbers that should be equal: sums may be computed in another order."""


class IncrementalDecoding:
    """A state, and the prefixes that it represents."""

    def __init__(self, model: Seq2Seq, vocab: Vocab) -> None:
        self.model, self.vocab, self.n_steps_done = model.eval(), vocab, 0
        batch = batch_of(vocab)
        self.memory = model.encode(batch.src, batch.src_pad)
        self.state = model.start(self.memory)
        self.rows = list(range(len(LENGTHS)))
        self.prefixes = [torch.empty(1, 0, dtype=torch.long) for _ in LENGTHS]  # [K, t] of each sentence
        for token in vocab.starting_tokens:
            self.step(torch.full((len(LENGTHS), 1), token))

    def step(self, token: Tensor | None = None) -> None:
        """Feed one token for each hypothesis: token [B, K], or random ones."""
        self.n_steps_done += 1
        if token is None:
            token = regular(self.vocab, (len(self.rows), len(self.prefixes[0])), seed=self.n_steps_done)
        self.prefixes = [torch.cat([y, t[:, None]], dim=1) for y, t in zip(self.prefixes, token, strict=True)]
        self.logits, self.state = self.model.step(token, self.state)

    def reorder(self, parents: Tensor) -> None:
        """parents [B, K']"""
        self.prefixes = [y[k] for y, k in zip(self.prefixes, parents, strict=True)]
        self.state = self.state.reorder(parents)

    def select(self, rows: Tensor) -> None:
        """rows [B']"""
        self.rows, self.prefixes = ([those[i] for i in rows] for those in (self.rows, self.prefixes))
        self.state = self.state.select(rows)

    def join(self, other: IncrementalDecoding) -> None:
        """Append the sentences of `other`."""
        self.rows, self.prefixes = self.rows + other.rows, self.prefixes + other.prefixes
        self.state = self.state.join(other.state)

    def compare(self, what: str) -> None:
        """Assert that the last step's logits equal those of `decode` for each whole prefix."""
        for row, prefix, logits in zip(self.rows, self.prefixes, self.logits, strict=True):
            memory = self.memory.select(torch.full((len(prefix),), row))
            assert_close(logits, self.model.project(self.model.decode(prefix, memory)[:, -1]), what)


def regular(vocab: Vocab, shape: Sequence[int], n_tokens: int | None = None, seed: int = 0) -> Tensor:
    """Random non-special tokens, drawn from all or from the first `n_tokens`."""
    special = {vocab.pad, vocab.unk, vocab.bos, vocab.eos, *vocab.starting_tokens}
    ids = torch.tensor([i for i in range(min(vocab.src, vocab.tgt)) if i not in special])[:n_tokens]
    return ids[torch.randint(len(ids), tuple(shape), generator=torch.Generator().manual_seed(seed))]


def batch_of(vocab: Vocab) -> Batch:
    return make_batch(pairs(vocab), vocab)


def pairs(vocab: Vocab) -> list[tuple[list[int], list[int]]]:
    return [(regular(vocab, (s,), seed=s).tolist(), regular(vocab, (t,), seed=10 + t).tolist()) for s, t in LENGTHS]


def assert_close(actual: Tensor, expected: Tensor, what: str) -> None:
    assert actual.shape == expected.shape, f"{what}: shape {list(actual.shape)}, expected {list(expected.shape)}"
    worst = (actual - expected).abs().max().item()
    assert worst <= TOLERANCE, f"{what}: they differ by {worst:.2g}"  # NaN fails, too
