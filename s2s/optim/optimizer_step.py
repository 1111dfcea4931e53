"""The end of an update: the gradient is clipped, and the optimizer steps unless the loss or the norm is not finite.

The host decides this; if the step is captured in a CUDA graph, the device does, without a synchronisation.
"""

from __future__ import annotations

__all__ = ["CUDAGraphOptimizerStep", "OptimizerStep"]

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
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

    def prepare(self) -> None:
        """Called before the first gradient is computed."""

    def __call__(self, sums: Tensor, lr: float) -> list[float]:
        """Make the step; returns the sums and the gradient's norm before clipping, for which the host waits once.

        sums [n] are those of all devices, the loss first.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.unscale_(self.optimizer)
        values = _on_host(sums, self.clip_gradient())
        if math.isfinite(values[0]) and math.isfinite(values[-1]):
            self.scaler.step(self.optimizer)
        self.scaler.update()
        return values

    def clip_gradient(self) -> Tensor:
        """Clip the gradient to train.clip; returns the Euclidean norm of the whole gradient before that, []."""
        norm = self.gradient_norm(self.parameters)
        if self.clip is not None:
            clip_grads_with_norm_(self.parameters, self.clip, norm)
        return norm


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

    def __call__(self, sums: Tensor, lr: float) -> list[float]:
        """The same; the device steps without waiting for the host."""
        assert self.replay is not None, "prepared before the gradient was computed"
        self.loss.copy_(sums[0])
        self.lr.fill_(lr)
        self.replay()
        return _on_host(sums, self.norm)

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

    @contextmanager
    def _skipped_if(self, not_finite: Tensor) -> Iterator[None]:
        """Fused optimizers skip the step where `found_inf` is 1, as GradScaler sets it for fp16."""
        optimizer: Any = self.optimizer
        optimizer.grad_scale, optimizer.found_inf = None, not_finite.float()
        try:
            yield
        finally:
            del optimizer.grad_scale, optimizer.found_inf


def _on_host(sums: Tensor, norm: Tensor) -> list[float]:
    values: list[float] = torch.cat([sums, norm[None].to(sums.dtype)]).tolist()  # waits for the device
    return values
