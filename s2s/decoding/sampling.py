"""Outputs drawn at random, each from a generator of its own.

Shapes: B sentences that are still drawn for, K samples of each, V target vocabulary, L the longest limit with eos.
"""

from __future__ import annotations

__all__ = ["Sampler", "choose"]

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from s2s.decoding import Hypothesis, SampleConfig
from s2s.decoding.choosing import log_probs, pick
from s2s.decoding.drawing import choose
from s2s.decoding.limits import most_symbols
from s2s.model import State

if TYPE_CHECKING:
    from s2s.model import Seq2Seq
    from s2s.task import Constraint, Vocab


@dataclass(frozen=True)
class Samples:
    """All that is known of the samples being drawn."""

    rows: Tensor
    """[B], which sources they are for"""
    uniform: Tensor
    """[B, K, L], what chance says at each step"""
    limit: Tensor
    """[B], most symbols of an output, without eos"""
    token: Tensor
    """[B, 1] at first, then [B, K]: the newest symbols"""
    live: Tensor
    """[B, K], False: has ended, or nothing was allowed"""
    state: State
    """The model's"""
    automaton: Tensor | None
    """[B, 1, ·] at first, then [B, K, ·], the constraint's"""

    def keep(self, rows: Tensor) -> Self:
        """Those of the sentences `rows` [B']"""
        tensors = {name: x[rows] for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **tensors, state=self.state.keep(rows))


class Sampler:
    """The `Search` that draws; see `SampleConfig`."""

    def __init__(self, config: SampleConfig) -> None:
        self.config = config

    @torch.no_grad()
    def __call__(
        self,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> list[list[Hypothesis]]:
        """`nbest` independent samples for each source, the most probable first: src, pad [B, S]."""
        drawn: list[list[Drawn]] = [[Drawn() for _ in range(nbest)] for _ in range(src.size(0))]
        samples = self.start(model, src, pad, vocab, constraint, nbest) if src.size(0) else None
        length = 0
        while samples is not None:
            logits, state = model.step(samples.token, samples.state)
            scores = log_probs(model, logits).expand(-1, nbest, -1)  # [B, K, V]
            allowed = self.allowed(samples, vocab, constraint, length, scores.size(-1))
            token = choose(scores, allowed, samples.uniform[..., length], self.config)
            of_token = scores.gather(2, token[..., None])[..., 0]
            possible = samples.live & allowed.any(-1) & of_token.isfinite()
            _write(drawn, samples.rows, token, of_token, samples.live, possible)
            samples, length = self.grown(samples, state, token, possible & (token != vocab.eos), constraint), length + 1
        outputs = [[sample.hypothesis(vocab.eos) for sample in row if sample.ends_with(vocab.eos)] for row in drawn]
        return [sorted(hypotheses, key=lambda h: -h.score) for hypotheses in outputs]

    def start(
        self, model: Seq2Seq, src: Tensor, pad: Tensor, vocab: Vocab, constraint: Constraint | None, n: int
    ) -> Samples:
        """Empty outputs, all of a sentence alike."""
        sources = [row[~gap].tolist() for row, gap in zip(src, pad, strict=True)]
        limits = [most_symbols(self.config, model, len(source) - 1) for source in sources]
        limit = torch.tensor(limits, device=src.device)
        uniform = [[_uniform(self.config.seed, k, source, max(limits) + 1) for k in range(n)] for source in sources]
        return Samples(
            rows=torch.arange(len(sources), device=src.device),
            uniform=torch.stack([torch.stack(row) for row in uniform]).to(src.device),
            limit=limit,
            token=torch.full_like(src[:, :1], vocab.bos),
            live=torch.ones(len(sources), n, dtype=torch.bool, device=src.device),
            state=model.start(model.encode(src, pad)),
            automaton=constraint.start(src, pad, limit) if constraint else None,
        )

    def allowed(
        self, samples: Samples, vocab: Vocab, constraint: Constraint | None, length: int, n_symbols: int
    ) -> Tensor:
        """What may come next, [B, K, V]; at its limit, an output can only end."""
        symbols = torch.arange(n_symbols, device=samples.token.device)
        banned = torch.tensor([vocab.pad, vocab.bos, *([vocab.unk] if self.config.ban_unk else [])])
        allowed = ~torch.isin(symbols, banned.to(symbols.device)) & (
            (length < samples.limit)[:, None, None] | (symbols == vocab.eos)
        )
        if constraint and samples.automaton is not None:
            allowed = allowed & constraint.allowed(samples.automaton)
        return allowed.expand(-1, samples.live.size(1), -1)

    def grown(
        self, samples: Samples, state: State, token: Tensor, live: Tensor, constraint: Constraint | None
    ) -> Samples | None:
        """One symbol longer, without the sentences whose samples have all ended; None: there are no others."""
        if samples.token.shape != token.shape:  # after the first step, each sample goes on by itself
            parents = torch.zeros_like(token)
            automaton = None if samples.automaton is None else pick(samples.automaton, parents)
            state, samples = state.select(parents), replace(samples, automaton=automaton)
        automaton = samples.automaton
        if constraint and automaton is not None:
            automaton = constraint.advance(automaton, token)
        samples = replace(samples, state=state, token=token, live=live, automaton=automaton)
        rows = live.any(1).nonzero()[:, 0]
        if not len(rows):
            return None
        return samples if len(rows) == len(live) else samples.keep(rows)


class Drawn:
    """One sample's symbols so far, and their log-probabilities under the model."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.log_probs: list[float] = []

    def ends_with(self, eos: int) -> bool:
        """Whether it is an output."""
        return bool(self.tokens) and self.tokens[-1] == eos

    def hypothesis(self, eos: int) -> Hypothesis:
        """The output."""
        log_prob = sum(self.log_probs)
        return Hypothesis(self.tokens[:-1], log_prob, log_prob, self.log_probs)


def _write(
    drawn: list[list[Drawn]], rows: Tensor, token: Tensor, log_prob: Tensor, live: Tensor, possible: Tensor
) -> None:
    """Add the newest symbols [B, K]; a live sample for which none was possible has no output."""
    for row, *values in zip(rows.tolist(), *(t.tolist() for t in (token, log_prob, live, possible)), strict=True):
        for sample, symbol, value, was_live, is_possible in zip(drawn[row], *values, strict=True):
            if is_possible:
                sample.tokens.append(symbol)
                sample.log_probs.append(value)
            elif was_live:
                sample.tokens.clear()


def _uniform(seed: int, sample: int, source: list[int], n: int) -> Tensor:
    """[n] in [0, 1), from the seed, the sample's number and its source alone."""
    key = hashlib.blake2b(np.array([seed, sample, *source], dtype="<i8").tobytes(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)
    return torch.rand(n, generator=generator, dtype=torch.double)
