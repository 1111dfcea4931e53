"""A local plugin: proximal policy optimization of whole outputs (Schulman et al., 2017), with a learnt baseline.

The reward of an output is the share of its tokens that occur in the source. KILL="3 1 file": the process kills itself
in the second update of the third batch, unless the file is there."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from s2s import Batch, Choice, Context, Objective, Registry, Sums, evaluating, hookimpl, make_batch, rows_without_eos
from s2s.nn import target_log_probs

if TYPE_CHECKING:
    from s2s import Seq2Seq


@dataclass(kw_only=True)
class PPOConfig(Choice):
    """Proximal policy optimization."""

    n: int = 4
    """Samples of each source."""
    clip: float = 0.2
    """How far the probability of a sample may move from that at the rollout."""
    updates: int = 3
    """Updates on the samples of a batch."""


@dataclass(frozen=True, kw_only=True)
class Samples(Batch):
    """A batch whose targets were sampled: M outputs."""

    log_probs: Tensor
    """[M], when they were sampled"""
    rewards: Tensor
    """[M]"""
    advantages: Tensor
    """[M]"""


class Critic(nn.Module):
    """The expected reward of a source, from the bag of its tokens."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(n_tokens, 8), nn.Linear(8, 1)

    def forward(self, src: Tensor, pad: Tensor) -> Tensor:
        """src, pad [M, S] -> [M]"""
        mean = self.embedding(src).masked_fill(pad[..., None], 0.0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.out(mean)[:, 0]


class PPO(nn.Module, Objective):
    """-min(ratio A, clip(ratio) A) + (V - r)^2, summed over the sampled outputs."""

    extras = ("nll", "reward", "value_loss", "ratio")

    def __init__(self, config: PPOConfig, context: Context) -> None:
        super().__init__()
        self.config, self.vocab, self.n_updates = config, context.vocab, config.updates
        self.decode = context.search({"name": "sample", "max_len_a": 1.0, "max_len_b": 3}, "objective.search")
        self.critic = Critic(context.vocab.src)
        self.n_calls = 0

    def rollout(self, model: Seq2Seq, batch: Batch) -> Samples:
        """Samples of each source, their log-probabilities and their advantages over the critic's estimate."""
        self.n_calls = 0
        sources = rows_without_eos(batch.src, batch.src_pad)
        pairs = [
            (source, output)
            for source, outputs in zip(sources, self.decode(model, batch, self.config.n), strict=True)
            for output in outputs
        ]
        made = make_batch(pairs, self.vocab).to(batch.src.device)
        rewards = torch.tensor([sum(i in src for i in out) / max(len(out), 1) for src, out in pairs])
        with evaluating(model):
            log_probs = target_log_probs(model, made).sum(-1)
        advantages = rewards - self.critic(made.src, made.src_pad)
        parts = {item.name: getattr(made, item.name) for item in fields(Batch)}
        return Samples(**parts, log_probs=log_probs, rewards=rewards, advantages=advantages)

    def forward(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll of a sample; mean reward; squared error of the critic; mean ratio of probabilities."""
        assert isinstance(batch, Samples)
        self.n_calls += 1
        if model.training:
            _die(self.n_calls)
        log_probs = target_log_probs(model, batch).sum(-1)
        ratio = (log_probs - batch.log_probs).exp()
        clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
        gain = torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
        error = (self.critic(batch.src, batch.src_pad) - batch.rewards).square()
        values = {"nll": -log_probs, "reward": batch.rewards, "value_loss": error, "ratio": ratio}
        extras = {name: value.detach().sum() for name, value in values.items()}
        return Sums((error - gain).sum(), len(batch.rewards), extras)


def _die(n_calls: int) -> None:
    if "KILL" not in os.environ:
        return
    at, file = os.environ["KILL"].split()
    with Path(file).open("a") as calls:
        calls.write("x")
    if Path(file).stat().st_size == int(at):
        os.kill(os.getpid(), signal.SIGKILL)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.objective("ppo", PPOConfig, PPO)
