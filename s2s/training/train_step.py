"""One update: the gradient of a global batch over all micro-batches and ranks, and the optimizer's step."""

from __future__ import annotations

__all__ = ["TrainStep"]

import functools
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from s2s.backend.cuda_graph import CUDAGraphCallable
from s2s.backend.device_types import device_of
from s2s.backend.host import release_freed_memory
from s2s.backend.selection import DTYPES, BackendSelection
from s2s.config import TrainConfig
from s2s.data.lazy_batch import pair_lengths
from s2s.distributed import Sharding, World
from s2s.distributed.sharding import OneProcess
from s2s.errors import PluginError
from s2s.model import Seq2Seq
from s2s.objective import Objective
from s2s.optim import Schedule
from s2s.optim.optimizer_step import CUDAGraphOptimizerStep, OptimizerStep, is_finite
from s2s.task import Vocab
from s2s.training.micro_batches import MicroBatches, n_tokens_of
from s2s.training.objective_checks import check_trained, checked_sums
from s2s.training.step_result import KnownValues, LaunchedUpdate, StepResult, UpdateSums, read_results, step_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.batch import Batch
    from s2s.data.pairs import Pair
    from s2s.training.batch_plan import BatchPlan

RELEASE_EVERY = 100
"""Number of updates after which freed memory is returned to the system"""

OPTIMIZER = 65_536
"""Number that no micro-batch has, for the seed of an optimizer's random numbers: the same on all ranks"""

ROLLOUT = -1
"""The same for a rollout, instead of the number of an update"""


class Rollout(NamedTuple):
    """A micro-batch of this rank."""

    position: int
    """Among those of the global batch"""
    weight: float
    """0 for one that only takes part in communication"""
    n_positions: int
    """Source and target positions, before the objective's rollout"""
    batch: Batch
    """What the objective made of it"""


@dataclass
class TrainStep:
    """Makes one update of the model from a global batch."""

    copied_share: ClassVar[float] = 0.5
    """Share of the available memory that copies for a checkpoint may take: where they would take more, it is written
    without them"""
    config: TrainConfig
    seed: int
    vocab: Vocab
    model: Seq2Seq
    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    world: World
    sharding: Sharding = field(default_factory=OneProcess)
    backend: BackendSelection = field(default_factory=BackendSelection)

    def __post_init__(self) -> None:
        self.device = device_of(self.world.device)
        parameters = dict.fromkeys(p for module in self.modules.values() for p in module.parameters())
        self.parameters = [p for p in parameters if p.requires_grad]
        """Those that are trained: the model's, then the objective's own"""
        self.scaler = torch.amp.GradScaler(self.world.device.type, enabled=self.config.precision == "fp16")
        self.graphs = self._new_graphs() if self.backend.cuda_graph.enabled else None
        self.optimizer_step = self._optimizer_step()
        self.check_memory: Callable[[int], None] = lambda _: None
        """See `BatchPlan`"""
        self.split_factor = 1
        """Factor applied to the configured number of micro-batches; doubled when memory runs out"""
        self.objective_is_checked = False

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The model, and an objective with parameters, under the names of their groups in a checkpoint."""
        module = self.objective.module
        return {"model": self.model, **({"objective": module} if module else {})}

    @property
    def micro_batches(self) -> MicroBatches:
        """How global batches are divided now."""
        return MicroBatches(self.config, self.vocab, self.world, self.backend, self.split_factor)

    def __call__(self, batch: Sequence[Pair], step: int) -> StepResult:
        """Train on `batch` as update `step`, counted from 1; nothing changes if loss or gradient is not finite.

        An objective with several updates of a batch makes them all; the first that is not finite ends them.
        """
        return read_results([self.launch(batch, step)])[0]

    def launch(self, batch: Sequence[Pair], step: int) -> LaunchedUpdate:
        """The same, without waiting for the device, unless the host decides whether the optimizer steps."""
        self.world.start_update(step)
        lr = self.schedule(step)
        n_src_tokens, n_tokens = n_tokens_of(batch)
        rollouts: list[Rollout] = []
        updates: list[Tensor] = []
        for number in range(self.objective.n_updates):
            updates.append(self._update(batch, rollouts, step, number, n_tokens, lr))
            if self.objective.n_updates > 1 and not is_finite(updates[-1]):
                break
        if step % RELEASE_EVERY == 0:
            release_freed_memory()
        n_micro_batches, flops = self.micro_batches.count(batch), self._flops(batch, len(updates))
        known = KnownValues(lr, n_tokens, n_src_tokens, n_micro_batches, flops)
        return LaunchedUpdate(torch.stack(updates), functools.partial(step_result, known, self.objective.extras))

    def _update(
        self, batch: Sequence[Pair], rollouts: list[Rollout], step: int, number: int, n_tokens: int, lr: float
    ) -> Tensor:
        """Make one update; returns its `UpdateSums`, and behind them the norm of the gradient, [5 + 2 m].

        rollouts: of this rank's micro-batches, in the first update still empty.
        """
        while (values := self._attempt(batch, rollouts, step, number, n_tokens, lr)) is None:
            self._split_further()
            rollouts.clear()
        return values

    def _attempt(
        self, batch: Sequence[Pair], rollouts: list[Rollout], step: int, number: int, n_tokens: int, lr: float
    ) -> Tensor | None:
        """The same with the present number of micro-batches; None if a rank has run out of memory.

        Of several ranks the host waits once, for the number of those that have, and for the rest; with fp16 it waits
        before, too: the scale of the loss must not change where no gradient is whole.
        """
        sums = self._gradient(self.micro_batches.split(batch), rollouts, step, number, n_tokens)
        if sums is None or (self.world.size > 1 and self.scaler.is_enabled() and sums.n_failed):
            return None
        self._normalise(n_tokens, sums.normaliser)
        self._seed(step, OPTIMIZER, number)
        values = self.optimizer_step(sums.values, lr)
        if self.world.size == 1:
            return values
        values = values.cpu()
        return None if UpdateSums(values[:-1]).n_failed else values  # the last is the gradient's norm

    def apply_plan(self, plan: BatchPlan) -> None:
        """Use the batch size and micro-batches of this plan from now on."""
        self.config = replace(self.config, tokens=plan.tokens, micro_tokens=plan.micro_tokens)
        self.check_memory = plan.check_memory

    def trial(self, batch: Sequence[Pair], plan: BatchPlan) -> bool:
        """Compute and discard the gradient of a batch, to measure memory; returns whether it sufficed on all ranks."""
        before = self.config, self.check_memory
        self.apply_plan(plan)
        try:
            sums = self._gradient(self.micro_batches.split(batch), [], 0, 0, n_tokens_of(batch)[1])
        finally:
            self.config, self.check_memory = before
        self.optimizer.zero_grad(set_to_none=self.graphs is None)
        return sums is not None and sums.n_failed.item() == 0

    def _gradient(
        self, parts: Sequence[Sequence[Pair]], rollouts: list[Rollout], step: int, number: int, n_tokens: int
    ) -> UpdateSums | None:
        """Gradient of the objective's sum over the GLOBAL batch, divided by its target tokens.

        None if this is the only rank, and ran out of memory. The batch's number of tokens is known on every rank, so it
        is not communicated. A rank that runs out of memory still takes part in all communication, with a loss of NaN,
        so that no rank's optimizer steps.
        """
        size = 4 + 2 * len(self.objective.extras)
        sums = UpdateSums(torch.zeros(size, dtype=self.device.wide_dtype, device=self.world.device))
        try:
            if not rollouts:
                rollouts.extend(self._rollouts(parts, step))
            self._accumulate(rollouts, step, number, n_tokens, sums)
        except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
            if not self.device.is_memory_error(error) or self.sharding.needs_every_rank or max(map(len, parts)) < 2:
                raise
            if self.world.size == 1:
                return None
            sums.loss.fill_(torch.nan)
            sums.n_failed.fill_(1)
        self.sharding.reduce_gradients()
        return UpdateSums(self.world.all_reduce(sums.values))

    def _rollouts(self, parts: Sequence[Sequence[Pair]], step: int) -> list[Rollout]:
        """This rank's micro-batches, and what the objective makes of them."""
        own = range(self.world.rank, len(parts), self.world.size)
        stand_in = next(part for part in parts if part)[:1]  # only to take part where every rank is needed
        present = [index for index in own if parts[index] or self.sharding.needs_every_rank]
        batches = [self.micro_batches.batch(parts[index] or stand_in) for index in present]
        made = batches
        if type(self.objective).rollout is not Objective.rollout:
            made = [self._rollout(part, step, index) for index, part in zip(present, batches, strict=True)]
        return [
            Rollout(index, 1.0 if parts[index] else 0.0, part.src.numel() + part.tgt_in.numel(), rolled_out)
            for index, part, rolled_out in zip(present, batches, made, strict=True)
        ]

    def _rollout(self, part: Batch, step: int, index: int) -> Batch:
        self._seed(step, index, ROLLOUT)
        module = self.objective.module
        whole = self.sharding.unsharded(module) if module else nullcontext()
        with torch.no_grad(), whole, self.device.autocast(DTYPES[self.config.precision]):
            return self.objective.rollout(self.model, part)

    def _accumulate(self, rollouts: Sequence[Rollout], step: int, number: int, n_tokens: int, sums: UpdateSums) -> None:
        """Add this rank's micro-batches to the gradients and to `sums`."""
        if self.graphs:
            for rollout in rollouts:
                self.graphs.prepare(rollout.batch)
        self.optimizer_step.prepare()
        self.optimizer.zero_grad(set_to_none=self.graphs is None)
        for index, weight, n_positions, part in rollouts:
            factor = torch.full((), weight / n_tokens, device=self.world.device)
            self._seed(step, index, number)
            self.check_memory(max(part.src.numel(), part.tgt_in.numel()))
            with self.sharding.micro_batch(last=index == rollouts[-1].position):
                part_sums = (self.graphs or self._backward)(part, factor)
            sums.objective.add_(weight * part_sums)
            sums.n_positions.add_(weight * n_positions)

    def _backward(self, part: Batch, factor: Tensor) -> Tensor:
        """Add the gradient of the objective's sum times a 0-dim `factor`; returns `Sums.stack`."""
        with self.backend.forward_backward():
            with self.device.autocast(DTYPES[self.config.precision]):
                sums = checked_sums(self.objective(self.model, part))
            if self.graphs and not isinstance(sums.normaliser, Tensor):
                raise PluginError(
                    "an objective with supports_cuda_graph = True must return a normaliser that is a tensor"
                )
            self.scaler.scale(sums.loss * factor).backward()
        if not self.objective_is_checked:
            check_trained(self.objective, {*self.model.parameters(), *self.parameters})
            self.objective_is_checked = True
        return sums.stack(self.objective.extras)

    def _normalise(self, n_tokens: int, normaliser: Tensor) -> None:
        """Divide the gradient by the normaliser instead of `n_tokens`, which were known before the forward pass.

        Dividing by `n_tokens` first keeps 16-bit numbers small, and saves this pass if the two are equal.
        """
        if normaliser.device.type == "cpu" and normaliser == n_tokens:
            return
        is_divisor = (normaliser > 0) & normaliser.isfinite()
        correction = torch.where(is_divisor, n_tokens / normaliser, torch.nan).float()  # NaN: the update is skipped
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        local = [g.to_local() if isinstance(g, DTensor) else g for g in gradients]
        torch._foreach_mul_(local, correction)

    def _flops(self, batch: Sequence[Pair], n_updates: int) -> float | None:
        forward = self.model.forward_operations(*(side.tolist() for side in pair_lengths(batch)))
        return None if forward is None else 3 * forward * n_updates

    def _split_further(self) -> None:
        """Double the number of micro-batches from now on; the gradient is the same but for other dropout masks."""
        self.split_factor *= 2
        self.optimizer.zero_grad()
        self.graphs = self._new_graphs() if self.graphs else None
        self.optimizer_step = self._optimizer_step()  # gradients will be allocated elsewhere
        self.device.empty_cache()

    def _seed(self, step: int, part: int, number: int) -> None:
        """Make random numbers depend only on (seed, step, micro-batch, number of the update of this batch), not on the
        rank or on what ran before."""
        seed = (self.seed * 1_000_003 + step) * 65_537 + part + number * 0x9E37_79B9_7F4A_7C15
        self.device.manual_seed(seed & 0xFFFF_FFFF_FFFF_FFFF)  # all torch takes

    def _new_graphs(self) -> CUDAGraphCallable:
        return CUDAGraphCallable(self._backward, self.device.capture)

    def _optimizer_step(self) -> OptimizerStep:
        """The optimizer step, in a CUDA graph if forward and backward are and the optimizer supports it."""
        arguments = self.optimizer, self.config.clip, self.scaler, self.sharding.gradient_norm
        if self.graphs and CUDAGraphOptimizerStep.supports(self.optimizer):
            return CUDAGraphOptimizerStep(*arguments, self.device.capture)
        return OptimizerStep(*arguments)
