"""Log-probabilities of given targets under a model, by forced decoding, pair by pair, in order.

Shapes: B pairs, T target length, N = B * T positions, V target tokens.
"""

from __future__ import annotations

__all__ = ["ScoredTarget", "score", "score_ids"]

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import torch

from s2s.batch import batch_by_length, make_batch
from s2s.errors import DataError, PluginError, UserError
from s2s.model import evaluating
from s2s.nn.loss import target_log_probs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s.model import Seq2Seq
    from s2s.task import Encoded, Example, Task, Vocab

StartedPair = tuple["Encoded", Sequence[int]]
"""A pair and its starting tokens"""
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
    `Task.forced_tokens` are fed to the model and not scored.
    """
    return _scored(model, task.vocab, _encoded(task, examples, model.max_len), device, tokens)


def score_ids(
    model: Seq2Seq,
    vocab: Vocab,
    pairs: Iterable[Encoded],
    device: torch.device,
    tokens: int = 4000,
    starts: Iterable[Sequence[int]] | None = None,
) -> Iterator[ScoredTarget]:
    """The same for pairs of ids, without starting tokens and eos, such as those that a search found.

    starts: the starting tokens of each pair; by default `vocab.starting_tokens`.
    """
    started = ((pair, vocab.starting_tokens) for pair in pairs) if starts is None else zip(pairs, starts, strict=True)
    return _scored(model, vocab, started, device, tokens)


def _scored(
    model: Seq2Seq, vocab: Vocab, pairs: Iterable[StartedPair], device: torch.device, tokens: int
) -> Iterator[ScoredTarget]:
    pairs, n_before = iter(pairs), 0
    while window := list(islice(pairs, WINDOW)):
        for number, (pair, start) in enumerate(window, n_before + 1):
            _check_length(number, pair, len(start), model.max_len)
        yield from _window(model, vocab, window, device, tokens)
        n_before += len(window)


def _window(
    model: Seq2Seq, vocab: Vocab, started: Sequence[StartedPair], device: torch.device, tokens: int
) -> list[ScoredTarget]:
    scored: dict[int, ScoredTarget] = {}
    pairs, starts = zip(*started, strict=True)
    for indices in batch_by_length(pairs, tokens):
        batch = make_batch([pairs[i] for i in indices], vocab, [starts[i] for i in indices]).to(device)
        with evaluating(model), torch.no_grad():
            everywhere = torch.ones_like(batch.tgt_out, dtype=torch.bool)  # pad may be a token of the target
            rows = target_log_probs(model, batch, counts=everywhere).tolist()
        for i, row in zip(indices, rows, strict=True):
            before, n = len(starts[i]) - 1, len(pairs[i].tgt)  # before: predictions of starting tokens
            scored[i] = ScoredTarget(list(pairs[i].tgt), row[before : before + n + 1])
    return [scored[i] for i in range(len(pairs))]


def _encoded(task: Task, examples: Iterable[Example], longest: int | None) -> Iterator[StartedPair]:
    """longest: tokens of a source with eos, for which its context is cut."""
    examples, n_before = iter(examples), 0
    while window := list(islice(examples, WINDOW)):
        try:
            encoded = task.encode(window)
        except UserError:
            encoded = list(chain.from_iterable(_one(task, *of) for of in enumerate(window, n_before + 1)))
        if task.context and longest is not None:
            encoded = [pair._replace(src=task.cut_context(pair.src, longest - 1)) for pair in encoded]
        yield from map(functools.partial(_started, task), encoded, window)
        n_before += len(window)


def _started(task: Task, pair: Encoded, example: Example) -> StartedPair:
    """The pair with the forced tokens taken from its target; PluginError if it does not begin with them."""
    codes = list(task.forced_tokens(example))
    if list(pair.tgt[: len(codes)]) != codes:
        raise PluginError(f"{type(task).__name__}.encode: expected targets that begin with forced_tokens, {codes}")
    return pair._replace(tgt=pair.tgt[len(codes) :]), task.vocab.started(codes)


def _one(task: Task, number: int, example: Example) -> Sequence[Encoded]:
    try:
        return task.encode([example])
    except UserError as error:
        raise DataError(f"pair {number:,}: {error}") from error


def _check_length(number: int, pair: Encoded, n_start: int, longest: int | None) -> None:
    for side, n_tokens in (("source", len(pair.src) + 1), ("target", len(pair.tgt) + n_start)):
        if longest is not None and n_tokens > longest:
            raise DataError(
                f"pair {number:,}: its {side} has {n_tokens:,} tokens with the end token, but this model takes "
                f"{longest:,}; shorten it, or leave the pair out"
            )
