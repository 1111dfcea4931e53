"""One update: the gradient of a global batch over all micro-batches and ranks, and the optimizer's step."""

from __future__ import annotations

__all__ = ["Updated", "Updater"]

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from s2s.batch import make_batch
from s2s.config import TrainConfig
from s2s.data.batching import split
from s2s.distributed import Replicated, Strategy, World
from s2s.nn.loss import Loss
from s2s.nn.products import choose
from s2s.schedules import Schedule
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data.batching import Pair

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Updated:
    """What came of one update; loss and nll are per target symbol, in nats."""

    loss: float
    nll: float
    gnorm: float
    lr: float
    n_tokens: int
    n_src_tokens: int
    padding: float
    """Share of the places of all micro-batches, on both sides, that hold no symbol"""

    @property
    def finite(self) -> bool:
        """Whether the step was taken; otherwise weights and optimizer are as they were."""
        return math.isfinite(self.loss) and math.isfinite(self.gnorm)


@dataclass
class Updater:
    """Turns global batches into updates of the model."""

    config: TrainConfig
    seed: int
    vocab: Vocab
    model: nn.Module
    loss: Loss
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    world: World
    strategy: Strategy = field(default_factory=lambda: Replicated(World()))

    def __post_init__(self) -> None:
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.library = choose(self.config.matmul, self.world.device)
        self.scaler = torch.amp.GradScaler(self.world.device.type, enabled=self.config.precision == "fp16")

    def __call__(self, batch: Sequence[Pair], step: int) -> Updated:
        """Learn from `batch` as update `step`, counted from 1; nothing changes if something is not finite."""
        self.world.at_update(step)
        lr = self.schedule(step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        parts = split(batch, self._n_parts(batch))
        n_src_tokens, n_tokens = n_symbols(batch)
        loss, nll = self._gradient(parts, step, n_tokens)
        self.scaler.unscale_(self.optimizer)
        norm = self._clip()
        padding = 1 - (n_src_tokens + n_tokens) / sum(sum(n_places(part)) for part in parts)
        updated = Updated(loss, nll, norm, lr, n_tokens, n_src_tokens, padding)
        if updated.finite:
            self.scaler.step(self.optimizer)
        self.scaler.update()
        return updated

    def _gradient(self, parts: Sequence[Sequence[Pair]], step: int, n_tokens: int) -> tuple[float, float]:
        """Gradient of the loss per target symbol of the GLOBAL batch, whatever the ranks and micro-batches.

        Every rank knows the whole batch, so its size needs no communication.
        """
        self.optimizer.zero_grad()
        sums = torch.zeros(2, device=self.world.device)
        for index in (own := range(self.world.rank, len(parts), self.world.size)):
            weight = 1.0 if parts[index] else 0.0
            if not weight and not self.strategy.needs_all:
                continue
            pairs = parts[index] or next(part for part in parts if part)[:1]  # only to be there where all are needed
            self._seed(step, index)
            part = make_batch(pairs, self.vocab).to(self.world.device)
            with self.strategy.learning(last=index == own[-1]), self.library.multiplying():
                with self._autocast():
                    out = self.loss(self.model, part)
                self.scaler.scale(out.loss * weight / n_tokens).backward()
            sums += weight * torch.stack([out.loss.detach(), out.nll.detach()])
        self.strategy.sum_gradients()
        loss, nll = (self.world.sum_scalars(sums) / n_tokens).tolist()
        return loss, nll

    def _n_parts(self, batch: Sequence[Pair]) -> int:
        """Micro-batches of a global batch: as many as micro_tokens asks for, and a multiple of the ranks."""
        limit, size = self.config.micro_tokens, self.world.size
        needed = 1 if limit is None else math.ceil(max(n_places(batch)) / limit)
        return size * math.ceil(needed / size)

    def _seed(self, step: int, part: int) -> None:
        """Dropout depends on (seed, step, micro-batch) alone: not on the rank, nor on what ran before."""
        torch.manual_seed(((self.seed * 1_000_003 + step) * 65_537 + part) & 0xFFFF_FFFF_FFFF_FFFF)  # all torch takes

    def _autocast(self) -> torch.autocast:
        precision = self.config.precision
        return torch.autocast(self.world.device.type, DTYPES[precision], enabled=precision != "fp32")

    def _clip(self) -> float:
        """Euclidean norm of the whole gradient, before it is scaled down to train.clip."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = get_total_norm(gradients)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        if self.config.clip is not None:
            clip_grads_with_norm_(self.parameters, self.config.clip, norm)
        return norm.item()


def n_symbols(batch: Sequence[Pair]) -> tuple[int, int]:
    """Source and target symbols of a batch, each sentence's eos counted."""
    return sum(len(src) + 1 for src, _ in batch), sum(len(tgt) + 1 for _, tgt in batch)


def n_places(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Source and target places of the same as a padded batch."""
    widths = [1 + max((len(pair[side]) for pair in pairs), default=0) for side in (0, 1)]
    return len(pairs) * widths[0], len(pairs) * widths[1]
