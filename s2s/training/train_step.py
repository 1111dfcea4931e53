"""One update: the gradient of a global batch over all micro-batches and ranks, and the optimizer's step."""

from __future__ import annotations

__all__ = ["StepResult", "TrainStep"]

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.backend.cuda_graph import CUDAGraphCallable, capture
from s2s.backend.selection import DTYPES, BackendSelection
from s2s.batch import make_batch
from s2s.config import TrainConfig
from s2s.data.lazy_batch import pair_lengths, split
from s2s.data.packing import Capacity, pack
from s2s.distributed import DDP, Strategy, World
from s2s.model import Seq2Seq
from s2s.nn.loss import Loss
from s2s.optim.optimizer_step import CUDAGraphOptimizerStep, OptimizerStep
from s2s.schedules import Schedule
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.batch import Batch
    from s2s.data.batching import Pair


@dataclass(frozen=True)
class StepResult:
    """Outcome of one update; loss and nll are per target token, in nats."""

    loss: float
    nll: float
    gnorm: float
    lr: float
    n_tokens: int
    n_src_tokens: int
    padding: float
    """Share of the positions of all micro-batches, on both sides, that are padding"""
    n_micro_batches: int
    """Over all ranks"""
    flops: float | None
    """Floating-point operations of the model, forward and backward; None: it does not count them"""

    @property
    def finite(self) -> bool:
        """Whether the optimizer stepped; otherwise weights and optimizer are unchanged."""
        return math.isfinite(self.loss) and math.isfinite(self.gnorm)

    def record(self) -> dict[str, float]:
        """Values for the log."""
        return {
            "loss": self.loss,
            "nll": self.nll,
            "lr": self.lr,
            "gnorm": self.gnorm,
            "tokens": self.n_tokens,
            "src_tokens": self.n_src_tokens,
            "padding": self.padding,
            "micro_batches": self.n_micro_batches,
        }


@dataclass
class TrainStep:
    """Makes one update of the model from a global batch."""

    config: TrainConfig
    seed: int
    vocab: Vocab
    model: Seq2Seq
    loss: Loss
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    world: World
    strategy: Strategy = field(default_factory=lambda: DDP(World()))
    backend: BackendSelection = field(default_factory=BackendSelection)

    def __post_init__(self) -> None:
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.scaler = torch.amp.GradScaler(self.world.device.type, enabled=self.config.precision == "fp16")
        self.graphs = CUDAGraphCallable(self._learn, capture) if self.backend.cuda_graph.enabled else None
        self.stepper = self._stepper()
        self.split_factor = 1
        """Multiple of the configured number of micro-batches; doubled when memory was too small"""

    def __call__(self, batch: Sequence[Pair], step: int) -> StepResult:
        """Train on `batch` as update `step`, counted from 1; nothing changes if loss or gradient are not finite."""
        self.world.start_update(step)
        lr = self.schedule(step)
        n_src_tokens, n_tokens = n_tokens_of(batch)
        while True:
            parts = split(batch, self._n_micro_batches(batch))
            sums, failed = self._gradient(parts, step, n_tokens)
            if not failed:
                break
            self._split_further()
        norm = self.stepper(sums[0], lr)
        loss, nll, n_there, gnorm = torch.stack([*sums[:3], norm]).tolist()  # the only wait for the device
        padding = 1 - (n_src_tokens + n_tokens) / n_there
        flops = self._flops(batch)
        return StepResult(
            loss / n_tokens, nll / n_tokens, gnorm, lr, n_tokens, n_src_tokens, padding, len(parts), flops
        )

    def capacity(self, tokens: int) -> Capacity | None:
        """The static shape of packed batches of so many tokens a side; None: shapes vary from batch to batch."""
        return Capacity(tokens, self.backend.max_len) if self.backend.static_shapes else None

    def local(self, batch: Sequence[Pair]) -> list[Sequence[Pair]]:
        """The micro-batches of a global batch that this rank trains on."""
        return split(batch, self._n_micro_batches(batch))[self.world.rank :: self.world.size]

    def trial(self, batch: Sequence[Pair]) -> None:
        """Compute the gradient of a batch and discard it, to measure memory."""
        self._gradient(split(batch, self._n_micro_batches(batch)), 0, n_tokens_of(batch)[1])
        self.optimizer.zero_grad(set_to_none=self.graphs is None)

    def _gradient(self, parts: Sequence[Sequence[Pair]], step: int, n_tokens: int) -> tuple[Tensor, bool]:
        """Gradient of the loss per target symbol of the GLOBAL batch, whatever the ranks and micro-batches.

        Returns the sums [3] of loss, nll and places computed on, and whether a process had too little memory.
        Every rank knows the batch's sizes, which so need no communication. One that has too little memory takes part
        in all communication still, and the ranks learn of it with the losses.
        """
        sums = torch.zeros(4, dtype=torch.float64, device=self.world.device)
        failed = False
        try:
            self._accumulate(parts, step, n_tokens, sums)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not is_memory(error) or self.strategy.needs_every_rank or max(map(len, parts)) < 2:
                raise
            failed = True
            sums[3] = 1
        self.strategy.reduce_gradients()
        sums = self.world.all_reduce(sums)
        return sums[:3], failed if self.world.size == 1 else bool(sums[3].item())

    def _accumulate(self, parts: Sequence[Sequence[Pair]], step: int, n_tokens: int, sums: Tensor) -> None:
        """Add this rank's micro-batches to the gradients and to the first three sums."""
        own = range(self.world.rank, len(parts), self.world.size)
        stand_in = next(part for part in parts if part)[:1]  # only to be there where all are needed
        there = [index for index in own if parts[index] or self.strategy.needs_every_rank]
        batches = [self._batch(parts[index] or stand_in) for index in there]
        if self.graphs:
            for part in batches:
                self.graphs.prepare(part)
        self.stepper.prepare()
        self.optimizer.zero_grad(set_to_none=self.graphs is None)
        for index, part in zip(there, batches, strict=True):
            weight = 1.0 if parts[index] else 0.0
            factor = torch.full((), weight / n_tokens, device=self.world.device)
            self._seed(step, index)
            with self.strategy.micro_batch(last=index == own[-1]):
                found = (self.graphs or self._learn)(part, factor)
            sums[:2] += weight * found
            sums[2] += weight * (part.src.numel() + part.tgt_in.numel())

    def _learn(self, part: Batch, factor: Tensor) -> Tensor:
        """Add the gradient of the summed loss times a 0-dim `factor`; the sums [2] of loss and nll."""
        with self.backend.forward_backward():
            with self._autocast():
                out = self.loss(self.model, part)
            self.scaler.scale(out.loss * factor).backward()
        return torch.stack([out.loss.detach(), out.nll.detach()])

    def _batch(self, pairs: Sequence[Pair]) -> Batch:
        """The pairs as a micro-batch on the device."""
        if not self.backend.packed.enabled:
            return make_batch(pairs, self.vocab).to(self.world.device)
        n_parts = self.world.size * self._n_own(self.config.n_tokens)
        capacity = self.capacity(math.ceil(self.config.n_tokens / n_parts))
        return pack(pairs, self.vocab, capacity and capacity.grown_for(pairs)).to(self.world.device)

    def _n_micro_batches(self, batch: Sequence[Pair]) -> int:
        """Micro-batches of a global batch: as many as micro_tokens asks for, and a multiple of the ranks."""
        n = self.config.n_tokens if self.backend.static_shapes else max(self._n_positions(batch))
        return self.world.size * self._n_own(n)

    def _n_own(self, n_places: int) -> int:
        """Micro-batches of each rank for so many places a side of a global batch."""
        limit, size = self.config.micro_tokens, self.world.size
        needed = 1 if limit is None else math.ceil(n_places / limit)
        return self.split_factor * math.ceil(needed / size)

    def _n_positions(self, pairs: Sequence[Pair]) -> tuple[int, int]:
        return n_tokens_of(pairs) if self.backend.packed.enabled else n_positions(pairs)

    def _flops(self, batch: Sequence[Pair]) -> float | None:
        forward = self.model.forward_operations(*(side.tolist() for side in pair_lengths(batch)))
        return None if forward is None else 3 * forward

    def _split_further(self) -> None:
        """Twice as many micro-batches from now on; the mathematics stay, dropout's draws are others."""
        self.split_factor *= 2
        self.optimizer.zero_grad()
        self.graphs = CUDAGraphCallable(self._learn, capture) if self.graphs else None
        self.stepper = self._stepper()  # gradients will lie elsewhere
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()

    def _seed(self, step: int, part: int) -> None:
        """Dropout depends on (seed, step, micro-batch) alone: not on the rank, nor on what ran before."""
        torch.manual_seed(((self.seed * 1_000_003 + step) * 65_537 + part) & 0xFFFF_FFFF_FFFF_FFFF)  # all torch takes

    def _autocast(self) -> torch.autocast:
        precision = self.config.precision
        return torch.autocast(self.world.device.type, DTYPES[precision], enabled=precision != "fp32")

    def _stepper(self) -> OptimizerStep:
        """In a CUDA graph where forward and backward are, if the optimizer supports it."""
        parts = self.optimizer, self.config.clip, self.scaler
        if self.graphs and CUDAGraphOptimizerStep.supports(self.optimizer):
            return CUDAGraphOptimizerStep(*parts, capture)
        return OptimizerStep(*parts)


def n_tokens_of(batch: Sequence[Pair]) -> tuple[int, int]:
    """Source and target symbols of a batch, each sentence's eos counted."""
    src, tgt = pair_lengths(batch)
    return int(src.sum()), int(tgt.sum())


def n_positions(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Source and target places of the same as a padded batch."""
    src, tgt = pair_lengths(pairs)
    return len(pairs) * int(src.max(initial=1)), len(pairs) * int(tgt.max(initial=1))


def is_memory(error: Exception) -> bool:
    """Whether it says that there is too little memory, on a GPU or on a CPU."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
