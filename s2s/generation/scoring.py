"""Log-probabilities of given targets under a model, by forced decoding, pair by pair, in order.

Shapes: B pairs, T target length, N = B * T positions, V target tokens.
"""

from __future__ import annotations

__all__ = ["ScoredTarget", "score", "score_ids"]

import math
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch

from s2s.batch import batch_by_length, make_batch
from s2s.errors import DataError, UserError
from s2s.model import evaluating
from s2s.nn.loss import target_log_probs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.model import Seq2Seq
    from s2s.task import Encoded, Example, Task, Vocab

WINDOW = 2000
"""Pairs read ahead, so that those of similar length are scored together"""


@dataclass(frozen=True)
class ScoredTarget:
    """Log-probabilities of one target."""

    tokens: list[int]
    """Its tokens, without bos and eos"""
    log_probs: list[float]
    """Of each token, given the source and the tokens before it, and finally of eos; in nats"""

    @property
    def log_prob(self) -> float:
        """log p(target | source)"""
        return math.fsum(self.log_probs)


def score(
    model: Seq2Seq, task: Task, examples: Iterable[Example], device: torch.device, tokens: int = 4000
) -> Iterator[ScoredTarget]:
    """Log-probabilities of the target of each pair of texts, in order; holds at most a window of pairs in memory.

    tokens: tokens of both sides in a batch, padding counted. A DataError names a pair by its number, from 1.
    """
    return score_ids(model, task.vocab, _encoded(task, examples), device, tokens)


def score_ids(
    model: Seq2Seq, vocab: Vocab, pairs: Iterable[Encoded], device: torch.device, tokens: int = 4000
) -> Iterator[ScoredTarget]:
    """The same for pairs of ids, without bos and eos, such as those that a search found."""
    pairs, n_before = iter(pairs), 0
    while window := list(islice(pairs, WINDOW)):
        for number, pair in enumerate(window, n_before + 1):
            _check_length(number, pair, model.max_len)
        yield from _window(model, vocab, window, device, tokens)
        n_before += len(window)


def _window(
    model: Seq2Seq, vocab: Vocab, pairs: Sequence[Encoded], device: torch.device, tokens: int
) -> list[ScoredTarget]:
    scored: dict[int, ScoredTarget] = {}
    before = len(vocab.start) - 1  # predictions of starting tokens
    for indices in batch_by_length(pairs, tokens):
        batch = make_batch([pairs[i] for i in indices], vocab).to(device)
        with evaluating(model), torch.no_grad():
            everywhere = torch.ones_like(batch.tgt_out, dtype=torch.bool)  # pad may be a token of the target
            rows = target_log_probs(model, batch, counts=everywhere).tolist()
        for i, row in zip(indices, rows, strict=True):
            n = len(pairs[i].tgt)
            scored[i] = ScoredTarget(list(pairs[i].tgt), row[before : before + n + 1])
    return [scored[i] for i in range(len(pairs))]


def _encoded(task: Task, examples: Iterable[Example]) -> Iterator[Encoded]:
    examples, n_before = iter(examples), 0
    while window := list(islice(examples, WINDOW)):
        try:
            encoded = task.encode(window)
        except UserError:
            encoded = list(chain.from_iterable(_one(task, *of) for of in enumerate(window, n_before + 1)))
        yield from encoded
        n_before += len(window)


def _one(task: Task, number: int, example: Example) -> list[Encoded]:
    try:
        return task.encode([example])
    except UserError as error:
        raise DataError(f"pair {number:,}: {error}") from error


def _check_length(number: int, pair: Encoded, longest: int | None) -> None:
    for side, ids in zip(("source", "target"), pair, strict=True):
        if longest is not None and len(ids) >= longest:
            raise DataError(
                f"pair {number:,}: its {side} has {len(ids) + 1:,} tokens with the end token, but this model takes "
                f"{longest:,}; shorten it, or leave the pair out"
            )
