"""Sampling: outputs drawn at random, each with its own random numbers.

Shapes: B sentences being decoded, K samples of each, V target vocabulary, L the largest length limit, eos included.
"""

from __future__ import annotations

__all__ = ["Sampling"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend import device_of, operators
from s2s.decoding import (
    ActiveBatch,
    ActiveSentence,
    Run,
    SearchResult,
    StreamingSearch,
    start_sentences,
)
from s2s.tensors import host_copies

if TYPE_CHECKING:
    from s2s.decoding import SampleConfig, SearchRequest, SourceSentence


class Sample:
    """One sample's tokens so far, and their log-probabilities under the model."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.has_ended = False
        """Whether no step adds a token"""

    def ends_with(self, eos: int) -> bool:
        """Whether it is complete."""
        return bool(self.tokens) and self.tokens[-1] == eos


@dataclass(frozen=True)
class SampledSentence(ActiveSentence):
    """A sentence with its samples, to which steps append."""

    samples: list[Sample]


class SamplingRun(Run["Samples"]):
    """What all steps of one call share."""

    def __init__(self, request: SearchRequest, config: SampleConfig) -> None:
        super().__init__(request)
        self.banned = torch.tensor(config.banned(request.vocab), dtype=torch.long, device=request.device)
        """Tokens that no output contains"""
        self.seed = config.seed
        self.sampling = self.rule = operators.SamplingRule(config.temperature, config.top_k, config.top_p)


@dataclass(frozen=True, kw_only=True)
class Samples(ActiveBatch[SampledSentence]):
    """The samples of every sentence."""

    run: SamplingRun
    uniform: Tensor
    """[B, K, L], a random number in [0, 1) for each step"""
    length: Tensor
    """[B], tokens of each sample, without bos"""
    limit: Tensor
    """[B], most tokens of an output, without eos"""
    token: Tensor
    """[B, 1] before the first step, then [B, K]: the newest tokens"""
    live: Tensor
    """[B, K], False: has ended, no token was allowed, or the sentence has all of its samples"""

    @property
    def n_hypotheses(self) -> int:
        """1 before the first step, then K"""
        return self.token.size(1)


class Sampling(StreamingSearch[Samples]):
    """The search that draws `nbest` outputs of each sentence; see `SampleConfig`."""

    def __init__(self, config: SampleConfig) -> None:
        self.config = config

    def begin(self, request: SearchRequest) -> SamplingRun:
        """What the steps of this call share."""
        run = SamplingRun(request.with_options(self.config), self.config)
        run.whole = type(self) is Sampling and run.transforms.are_known
        return run

    def start(self, run: SamplingRun, sentences: list[SourceSentence]) -> Samples:
        """Empty samples, one row for all samples of a sentence."""
        started, device = start_sentences(run, self.config, sentences), run.request.device
        limit = torch.tensor(started.limits, device=device)
        numbers, longest = range(run.request.nbest), max(started.limits) + 1
        n_samples = torch.tensor([sentence.nbest or len(numbers) for sentence in sentences])
        uniform = [_uniform(sentence.sampling_key(run.seed, k), longest) for sentence in sentences for k in numbers]
        return Samples(
            run=run,
            sentences=[
                SampledSentence(s.index, len(s.ids), [Sample() for _ in numbers], limit=limit)
                for s, limit in zip(sentences, started.limits, strict=True)
            ],
            uniform=torch.stack(uniform).unflatten(0, (len(sentences), -1)).to(device, device_of(device).wide_dtype),
            length=torch.zeros_like(limit),
            limit=limit,
            token=started.token,
            live=(torch.arange(len(numbers)) < n_samples[:, None]).to(device),
            state=started.state,
            constraint_state=started.constraint_state,
            output=run.transforms.start(len(sentences), device),
        )

    def step(self, batch: Samples) -> Samples:
        """The batch with one more token for every live sample."""
        run, request = batch.run, batch.run.request
        logits, state = request.model.step(batch.token, batch.state)
        logits = run.transforms(logits, batch.output) if request.transforms else logits
        allowed = self.allowed(batch, logits.size(-1))
        now = batch.length[:, None, None].expand(-1, request.nbest, -1)
        uniform = batch.uniform.gather(2, now)[..., 0]
        token, log_prob = operators.sample_tokens(logits, uniform, run.banned, allowed, request.normalize, run.rule)
        possible = batch.live & (log_prob > -torch.inf)
        _append(batch, token, log_prob, possible)
        parents = None
        if batch.token.shape != token.shape:  # after the first step each sample has a state of its own
            parents = torch.zeros_like(token)
            state = state.reorder(parents)
        return replace(
            batch,
            state=state,
            token=token,
            live=possible & (token != request.vocab.eos),
            length=batch.length + 1,
            constraint_state=run.constraint.advance(batch.constraint_state, token, parents),
            output=run.transforms.advance(batch.output, token, parents),
        )

    def allowed(self, samples: Samples, n_tokens: int) -> Tensor:
        """The tokens that may come next but for banned ones, [B, K, V]; at its limit a sample can only end."""
        run = samples.run
        tokens = torch.arange(n_tokens, device=run.request.device)
        allowed = (samples.length < samples.limit)[:, None, None] | (tokens == run.request.vocab.eos)
        constrained = run.constraint.allowed(samples.constraint_state, n_tokens)
        if constrained is not None:
            allowed = allowed & constrained
        return allowed.expand(-1, run.request.nbest, -1)

    def is_done(self, batch: Samples) -> Tensor:
        """Which sentences are finished, that is, all their samples have ended: [B], on the host"""
        return torch.tensor([all(sample.has_ended for sample in sentence.samples) for sentence in batch.sentences])

    def result(self, batch: Samples, row: int) -> SearchResult:
        """The complete samples, the most probable first."""
        sentence, eos = batch.sentences[row], batch.run.request.vocab.eos
        return sentence.sampling_result(
            (one.tokens[:-1], one.log_probs) for one in sentence.samples if one.ends_with(eos)
        )


def _append(batch: Samples, token: Tensor, log_prob: Tensor, possible: Tensor) -> None:
    """Append the newest tokens [B, K]; a live sample for which no token was possible has no output."""
    eos = batch.run.request.vocab.eos
    values = zip(*(x.tolist() for x in host_copies([token, log_prob, batch.live, possible])), strict=True)
    for sentence, sentence_values in zip(batch.sentences, values, strict=True):
        for sample, newest, value, was_live, is_possible in zip(sentence.samples, *sentence_values, strict=True):
            if is_possible:
                sample.tokens.append(newest)
                sample.log_probs.append(value)
            elif was_live:
                sample.tokens.clear()
            sample.has_ended = not is_possible or newest == eos


def _uniform(key: int, n: int) -> Tensor:
    """[n] in [0, 1), those of a key of `SourceSentence.sampling_key`; in fp64."""
    numbers = operators.random_int64(key, n)
    return ((numbers >> 11) & ((1 << 53) - 1)).double() / (1 << 53)
