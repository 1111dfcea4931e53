"""Several models, of any architectures, as one model: the contract, and an ensemble.

Each member keeps its own memory and state.

Shapes: B sentences, S source length, T target length, K hypotheses of a sentence, V target tokens, n members.
"""

from __future__ import annotations

__all__ = ["CombinedModel", "Ensemble", "MemberMemories"]

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from s2s.decoding.model_scores import log_probs
from s2s.model import Memory, Seq2Seq, State

if TYPE_CHECKING:
    from collections.abc import Sequence


TINY = 1e-30
"""Sums of probabilities below this lose digits, or underflow, in fp32"""


@dataclass
class MemberMemories(Memory):
    """The first member's memory, and the memories of all."""

    members: tuple[Memory, ...]

    def select(self, rows: Tensor) -> Self:
        """The memories of the sentences `rows` [B']"""
        members = tuple(memory.select(rows) for memory in self.members)
        return replace(self, hidden=members[0].hidden, pad=members[0].pad, members=members)


@dataclass
class MemberStates(State):
    """The states of all members, as `hypothesis`; these also hold what belongs to the sentence."""

    hypothesis: tuple[State, ...]

    @property
    def supports_join(self) -> bool:  # type: ignore[override]  # not a class attribute: it depends on the members
        """Whether all members' states can be joined."""
        return all(state.supports_join for state in self.hypothesis)

    def reorder(self, parents: Tensor) -> Self:
        """Hypothesis k of sentence b continues hypothesis parents[b, k]: parents [B, K']"""
        return replace(self, hypothesis=tuple(state.reorder(parents) for state in self.hypothesis))

    def select(self, rows: Tensor) -> Self:
        """The states of the sentences `rows` [B'], on the host"""
        return replace(self, hypothesis=tuple(state.select(rows) for state in self.hypothesis))

    def join(self, other: Self) -> Self:
        """The sentences of both, these first."""
        pairs = zip(self.hypothesis, other.hypothesis, strict=True)
        return replace(self, hypothesis=tuple(state.join(newcomer) for state, newcomer in pairs))


class CombinedModel(Seq2Seq):
    """Models that jointly decode one output; `combine` defines how."""

    returns_log_probs = True

    def __init__(self, members: Sequence[Seq2Seq]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        limits = [model.max_len for model in members if model.max_len is not None]
        self.max_len = min(limits, default=None)

    @abstractmethod
    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """Each member's log-probabilities [..., V] -> the log-probabilities that search adds, [..., V]"""

    def models(self) -> list[Seq2Seq]:
        """The members, typed."""
        return list(self.members)  # type: ignore[arg-type]

    def encode(self, src: Tensor, pad: Tensor) -> MemberMemories:
        """src, pad [B, S] -> each member's memory."""
        members = tuple(model.encode(src, pad) for model in self.models())
        return MemberMemories(members[0].hidden, members[0].pad, members)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> scores [B, T, V]"""
        assert isinstance(memory, MemberMemories)
        pairs = zip(self.models(), memory.members, strict=True)
        return self.combine([log_probs(model, model.project(model.decode(tgt, part))) for model, part in pairs])

    def start(self, memory: Memory) -> MemberStates:
        """Each member's state before the first token."""
        assert isinstance(memory, MemberMemories)
        pairs = zip(self.models(), memory.members, strict=True)
        return MemberStates(sentence=None, hypothesis=tuple(model.start(part) for model, part in pairs))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> scores [B, K, V] of the next token"""
        assert isinstance(state, MemberStates)
        scores, states = [], []
        for model, member_state in zip(self.models(), state.hypothesis, strict=True):
            logits, member_state = model.step(token, member_state)
            scores.append(log_probs(model, logits))  # now, since another model's step may overwrite the logits
            states.append(member_state)
        return self.combine(scores), replace(state, hypothesis=tuple(states))


class Ensemble(CombinedModel):
    """The mean of the members' probabilities, token by token."""

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """log-probabilities [..., V], n times -> [..., V]"""
        total = scores[0].exp()
        for others in scores[1:]:
            total += others.exp()  # `logsumexp` took three times as long, `logaddexp`'s bits depend on a row's position
        lost = total.amin(-1) < TINY
        mean = total.log_()
        if not lost.is_cpu:  # without waiting for the device
            mean = torch.where(lost[..., None], torch.stack(list(scores)).logsumexp(0), mean)
        elif lost.any():
            mean[lost] = torch.stack([member_scores[lost] for member_scores in scores]).logsumexp(0)
        return mean.sub_(math.log(len(scores)))

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """The mean over the members that have attention, [B, T, S]."""
        weights = [model.attention(src, pad, tgt, layer) for model in self.models()]
        known = [attention for attention in weights if attention is not None]
        return torch.stack(known).mean(0) if known else None

    def label_logits(self, src: Tensor, pad: Tensor) -> Tensor | None:
        """The mean probability of the members that have labels, as its logarithm, [B, W, L]."""
        every = [model.label_logits(src, pad) for model in self.models()]
        known = [logits.float().softmax(-1) for logits in every if logits is not None]
        return torch.stack(known).mean(0).log() if known else None
