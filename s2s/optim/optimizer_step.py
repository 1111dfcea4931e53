"""The end of an update: the gradient is clipped, and the optimizer steps unless the loss or the norm is not finite.

The device decides this where a tensor can stop the optimizer, as it can torch's fused ones, so that the host need not
wait for the device; elsewhere the host does.
"""

from __future__ import annotations

__all__ = ["CUDAGraphOptimizerStep", "OptimizerStep", "is_finite"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_

from s2s.backend.device_types import device_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from s2s.backend.cuda_graph import Capture

    GradientNorm = Callable[[Sequence[nn.Parameter]], Tensor]


class OptimizerStep:
    """Clips the gradient and steps an optimizer, on any device."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        clip: float | None,
        scaler: torch.amp.GradScaler,
        gradient_norm: GradientNorm,
    ) -> None:
        """gradient_norm: that of `distributed.Strategy`."""
        self.optimizer, self.clip, self.scaler, self.gradient_norm = optimizer, clip, scaler, gradient_norm
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.device_decides = all(map(can_be_stopped, self.parameters)) and skips(optimizer)

    def prepare(self) -> None:
        """Called before the first gradient is computed."""

    def __call__(self, sums: Tensor, lr: float) -> Tensor:
        """Make the step; returns the sums and the gradient's norm before clipping, [n + 1], on the host if it decides.

        sums [n] are those of all devices, the loss first.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.unscale_(self.optimizer)
        values = _with_norm(sums, self.clip_gradient())
        if self.device_decides:
            with self._skipped_if(~is_finite(values)):
                self.optimizer.step()
        else:
            values = values.cpu()  # waits for the device
            if is_finite(values):
                self.optimizer.step()
        self.scaler.update()
        return values

    def clip_gradient(self) -> Tensor:
        """Clip the gradient to train.clip; returns the Euclidean norm of the whole gradient before that, []."""
        norm = self.gradient_norm(self.parameters)
        if self.clip is not None:
            clip_grads_with_norm_(self.parameters, self.clip, norm)
        return norm

    @contextmanager
    def _skipped_if(self, not_finite: Tensor) -> Iterator[None]:
        """Fused optimizers skip the step where `found_inf` is 1, as GradScaler sets it for fp16."""
        optimizer: Any = self.optimizer
        optimizer.grad_scale, optimizer.found_inf = None, not_finite.float()
        try:
            yield
        finally:
            del optimizer.grad_scale, optimizer.found_inf


class CUDAGraphOptimizerStep(OptimizerStep):
    """The same, captured once: learning rate and whether to step are tensors, which fused Adam accepts."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        clip: float | None,
        scaler: torch.amp.GradScaler,
        gradient_norm: GradientNorm,
        capture: Capture,
    ) -> None:
        super().__init__(optimizer, clip, scaler, gradient_norm)
        self.capture = capture
        self.replay: Callable[[], None] | None = None
        device = self.parameters[0].device
        self.loss = torch.full((), torch.nan, dtype=device_of(device).wide_dtype, device=device)
        self.lr = torch.zeros((), device=device)
        self.norm = torch.zeros((), device=device)
        optimizer.register_load_state_dict_post_hook(self._discard)

    @staticmethod
    def supports(optimizer: torch.optim.Optimizer) -> bool:
        """Whether a tensor can decide if the optimizer steps, as in fused, capturable optimizers."""
        return all(group.get("fused") and "capturable" in group for group in optimizer.param_groups)

    def prepare(self) -> None:
        """Capture with arbitrary gradients; the loss is NaN meanwhile, so that nothing is updated."""
        if self.replay is None:
            self.loss.fill_(torch.nan)
            self.replay, self.norm = self.capture(self._clip_and_step)

    def __call__(self, sums: Tensor, lr: float) -> Tensor:
        """The same, on the device."""
        assert self.replay is not None, "prepared before the gradient was computed"
        self.loss.copy_(sums[0])
        self.lr.fill_(lr)
        self.replay()
        return _with_norm(sums, self.norm)

    def _discard(self, _: torch.optim.Optimizer) -> None:
        """Discard the graph, which writes to the optimizer state from before a checkpoint was loaded."""
        self.replay = None

    def _clip_and_step(self) -> Tensor:
        norm = self.clip_gradient()
        not_finite = ~(self.loss.isfinite() & norm.isfinite())
        with self._group_options(lr=self.lr, capturable=True), self._skipped_if(not_finite):
            self.optimizer.step()
        return norm

    @contextmanager
    def _group_options(self, **options: Any) -> Iterator[None]:
        """Set options of the parameter groups inside the block only: checkpoints hold the original ones."""
        groups = self.optimizer.param_groups
        before = [{name: group[name] for name in options} for group in groups]
        for group in groups:
            group.update(options)
        try:
            yield
        finally:
            for group, saved in zip(groups, before, strict=True):
                group.update(saved)


def is_finite(values: Tensor) -> Tensor:
    """Whether loss and norm are finite, of the values of an optimizer step, [..., n + 1] -> [...]"""
    return values[..., 0].isfinite() & values[..., -1].isfinite()


def can_be_stopped(parameter: nn.Parameter) -> bool:
    """Whether a tensor may decide: reading the host's costs nothing, and a kernel takes no plain tensor with shards."""
    return not (parameter.is_cpu or isinstance(parameter, DTensor))


def skips(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer skips a step where a tensor says so, as GradScaler asks it; momentum, which torch's fused
    SGD allocates in its first step, would have arbitrary values if that were skipped."""
    has_momentum = any(group.get("momentum") for group in optimizer.param_groups)
    return getattr(optimizer, "_step_supports_amp_scaling", False) and not has_momentum


def _with_norm(sums: Tensor, norm: Tensor) -> Tensor:
    return torch.cat([sums, norm[None].to(sums.dtype)])
