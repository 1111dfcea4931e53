"""Searches with lists, one sentence at a time and without any cache: the reference for the fast ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

if TYPE_CHECKING:
    from s2s.decoding import BeamConfig, GreedyConfig, Hypothesis
    from s2s.model import Seq2Seq

EOS = 3


def batch_of(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    src = pad_sequence([torch.tensor([*source, EOS]) for source in sources], batch_first=True)
    return src, src == 0


def sources(n: int, longest: int, n_symbols: int, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(4, n_symbols) for _ in range(draw.randint(1, longest))] for _ in range(n)]


NextLogProbs = Callable[[list[int]], list[float]]


def next_log_probs(model: Seq2Seq, source: Sequence[int]) -> NextLogProbs:
    """Of one sentence alone, without any cache."""
    memory = model.encode(*batch_of([source]))

    def of(prefix: list[int]) -> list[float]:
        with torch.no_grad():
            logits = model.project(model.decode(torch.tensor([[2, *prefix]]), memory))[0, -1]
        return logits.double().log_softmax(-1).tolist()

    return of


def penalty(config: BeamConfig, length: int) -> float:
    length += config.length_offset
    return {"gnmt": ((5 + length) / 6) ** config.alpha, "power": float(length) ** config.alpha, "none": 1.0}[
        config.length_penalty
    ]


def limit_of(config: BeamConfig | GreedyConfig, source: Sequence[int]) -> int:
    return max(1, int(config.max_len_a * len(source)) + config.max_len_b)


def banned(config: BeamConfig | GreedyConfig) -> set[int]:
    return {0, 2, 1} if config.ban_unk else {0, 2}


Scored = tuple[float, list[int]]


def every_output(model: Seq2Seq, source: Sequence[int], config: BeamConfig, n_symbols: int) -> list[Scored]:
    """Score and symbols of all that could come out, best first."""
    of = next_log_probs(model, source)
    symbols = [s for s in range(n_symbols) if s not in banned(config) and s != EOS]
    found = []
    for length in range(limit_of(config, source) + 1):
        for output in itertools.product(symbols, repeat=length):
            tokens = [*output, EOS]
            log_prob = sum(of(tokens[:i])[token] for i, token in enumerate(tokens))
            found.append((log_prob / penalty(config, length + 1), tokens[:-1]))
    return sorted(found, reverse=True)


def slow_beam(of: NextLogProbs, source: Sequence[int], config: BeamConfig, nbest: int) -> list[Scored]:
    """Beam search of one sentence, with lists."""
    limit = limit_of(config, source)
    live: list[Scored] = [(0.0, [])]
    ended: list[Scored] = []
    for length in range(1, limit + 2):  # |Y| of what ends now
        candidates = sorted(
            (
                (log_prob + p, [*prefix, symbol])
                for log_prob, prefix in live
                for symbol, p in enumerate(of(prefix))
                if symbol not in banned(config) and (symbol == EOS or len(prefix) < limit)
            ),
            reverse=True,
        )[: 2 * config.beam]
        counted = candidates[: config.beam] if config.stop in ("first_k", "heuristic") else candidates
        ended += [(p / penalty(config, length), y[:-1]) for p, y in counted if y[-1] == EOS]
        ended = sorted(ended, reverse=True)[: config.beam]
        live = [(p, y) for p, y in candidates if y[-1] != EOS][: config.beam]
        if not live or is_over(live[0][0], ended, range(length + 1, limit + 2), config, nbest):
            break
    return ended[:nbest]


def is_over(best_live: float, ended: list[Scored], lengths: Sequence[int], config: BeamConfig, nbest: int) -> bool:
    if config.stop == "first_k":
        return len(ended) == config.beam
    n = nbest if config.stop == "best" else config.beam
    if config.stop == "heuristic":
        lengths = [lengths[0] - 1]
    reachable = max(best_live / penalty(config, length) for length in lengths)
    return len(ended) >= n and ended[n - 1][0] >= reachable


def assert_same(found: list[Hypothesis], expected: list[Scored]) -> None:
    assert [h.tokens for h in found] == [tokens for _, tokens in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], rel=1e-4)
