"""Outputs drawn at random, each from a generator of its own.

Shapes: B sentences that are still drawn for, K samples of each, V target vocabulary, L the longest limit with eos.
"""

from __future__ import annotations

__all__ = ["Sampler", "choose"]

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from s2s.decoding import Found, SampleConfig
from s2s.decoding.lexical import bind_lexical
from s2s.decoding.limits import max_output_length
from s2s.decoding.samples import LazyBatch, Samples, Sentence
from s2s.decoding.streaming import BatchedSearch, Streaming, padded, staying
from s2s.decoding.token_sampling import choose
from s2s.decoding.topk import log_probs, pick
from s2s.model import Seq2Seq
from s2s.task import Constraint, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.decoding.queue import Queue, Source


class Sampler(BatchedSearch):
    """The `StreamingSearch` that draws; see `SampleConfig`."""

    def __init__(self, config: SampleConfig) -> None:
        self.config = config

    @torch.no_grad()
    def stream(
        self,
        model: Seq2Seq,
        queue: Queue,
        vocab: Vocab,
        device: torch.device,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> Iterator[list[Found]]:
        """The samples of the sentences of a queue, in the order in which the last of each ends."""
        yield from Drawing(self.config, model, vocab, device, constraint, nbest).run(queue)


@dataclass
class Drawing(Streaming[Samples]):
    """One search."""

    config: SampleConfig
    model: Seq2Seq
    vocab: Vocab
    device: torch.device
    constraint: Constraint | None
    n_samples: int

    def start(self, sources: list[Source]) -> Samples:
        """Empty outputs, all of a sentence alike."""
        src, pad = padded(sources, self.vocab, self.device)
        limits = [max_output_length(self.config, self.model, len(source.ids) - 1) for source in sources]
        limit = torch.tensor(limits, device=self.device)
        numbers, longest = range(self.n_samples), max(limits) + 1
        uniform = [_uniform(self.config.seed, k, list(source.ids), longest) for source in sources for k in numbers]
        constraint = bind_lexical(self.constraint, [source.wish for source in sources])
        return Samples(
            sentences=[Sentence(s.place, len(s.ids), [LazyBatch() for _ in numbers]) for s in sources],
            uniform=torch.stack(uniform).unflatten(0, (len(sources), -1)).to(self.device),
            length=torch.zeros_like(limit),
            limit=limit,
            token=torch.full_like(src[:, :1], self.vocab.bos),
            live=torch.ones(len(sources), self.n_samples, dtype=torch.bool, device=self.device),
            state=self.model.start(self.model.encode(src, pad)),
            automaton=constraint.start(src, pad, limit) if constraint else None,
        )

    def grow(self, samples: Samples) -> Samples:
        """One symbol longer."""
        logits, state = self.model.step(samples.token, samples.state)
        scores = log_probs(self.model, logits).expand(-1, self.n_samples, -1)  # [B, K, V]
        allowed = self.allowed(samples, scores.size(-1))
        now = samples.length[:, None, None].expand(-1, self.n_samples, -1)
        token = choose(scores, allowed, samples.uniform.gather(2, now)[..., 0], self.config)
        log_prob = scores.gather(2, token[..., None])[..., 0]
        possible = samples.live & allowed.any(-1) & log_prob.isfinite()
        _write(samples, token, log_prob, possible)
        automaton = samples.automaton
        if samples.token.shape != token.shape:  # after the first step, each sample goes on by itself
            parents = torch.zeros_like(token)
            state, automaton = state.reorder(parents), None if automaton is None else pick(automaton, parents)
        if self.constraint and automaton is not None:
            automaton = self.constraint.advance(automaton, token)
        live, length = possible & (token != self.vocab.eos), samples.length + 1
        return replace(samples, state=state, token=token, live=live, length=length, automaton=automaton)

    def allowed(self, samples: Samples, n_symbols: int) -> Tensor:
        """What may come next, [B, K, V]; at its limit, an output can only end."""
        symbols = torch.arange(n_symbols, device=self.device)
        unk = [self.vocab.unk] if self.config.ban_unk else []
        banned = torch.tensor([self.vocab.pad, self.vocab.bos, *unk], device=self.device)
        in_time = (samples.length < samples.limit)[:, None, None] | (symbols == self.vocab.eos)
        allowed = ~torch.isin(symbols, banned) & in_time
        if self.constraint and samples.automaton is not None:
            allowed = allowed & self.constraint.allowed(samples.automaton)
        return allowed.expand(-1, self.n_samples, -1)

    def over(self, batch: Samples) -> Tensor:
        """Which sentences are done: [B], those whose samples have all ended."""
        return ~batch.live.any(1)

    def found(self, batch: Samples, row: int) -> Found:
        """The samples that are outputs, the most probable first."""
        sentence = batch.sentences[row]
        outputs = [sample.hypothesis() for sample in sentence.drawn if sample.ends_with(self.vocab.eos)]
        return Found(sentence.place, sorted(outputs, key=lambda h: -h.score))

    def without(self, batch: Samples, over: Tensor) -> Samples | None:
        """The sentences that go on; None: there are none."""
        rows = staying(over)
        return batch.keep(rows) if len(rows) else None


def _write(samples: Samples, token: Tensor, log_prob: Tensor, possible: Tensor) -> None:
    """Add the newest symbols [B, K]; a live sample for which none was possible has no output."""
    values = zip(*(t.tolist() for t in (token, log_prob, samples.live, possible)), strict=True)
    for sentence, of_sentence in zip(samples.sentences, values, strict=True):
        for sample, symbol, value, was_live, is_possible in zip(sentence.drawn, *of_sentence, strict=True):
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
