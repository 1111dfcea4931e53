"""The end of an update: the gradient is clipped, and the optimizer's step taken unless something is not finite.

The host decides that, or, where the step is recorded, the device, and nothing waits for it.
"""

from __future__ import annotations

__all__ = ["RecordedStepper", "Stepper"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from s2s.captured import Record


class Stepper:
    """Takes the steps of an optimizer, for any device."""

    def __init__(self, optimizer: torch.optim.Optimizer, clip: float | None, scaler: torch.amp.GradScaler) -> None:
        self.optimizer, self.clip, self.scaler = optimizer, clip, scaler
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def prepare(self) -> None:
        """Before the first gradient."""

    def __call__(self, loss: Tensor, lr: float) -> Tensor:
        """The gradient's norm before clipping, []; loss [] is summed over all devices."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.unscale_(self.optimizer)
        norm = self.clipped()
        if bool((loss.isfinite() & norm.isfinite()).item()):
            self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm

    def clipped(self) -> Tensor:
        """Euclidean norm of the whole gradient, [], before it is scaled down to train.clip."""
        norm = get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        if self.clip is not None:
            clip_grads_with_norm_(self.parameters, self.clip, norm)
        return norm


class RecordedStepper(Stepper):
    """The same, recorded once: the learning rate and whether to step are tensors, which fused Adam takes."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, clip: float | None, scaler: torch.amp.GradScaler, record: Record
    ) -> None:
        super().__init__(optimizer, clip, scaler)
        self.record = record
        self.replay: Callable[[], None] | None = None
        device = self.parameters[0].device
        self.loss = torch.full((), torch.nan, dtype=torch.float64, device=device)
        self.lr = torch.zeros((), device=device)
        self.norm = torch.zeros((), device=device)
        optimizer.register_load_state_dict_post_hook(self._forget)

    @staticmethod
    def serves(optimizer: torch.optim.Optimizer) -> bool:
        """Whether the optimizer's step can be taken or not by a tensor's saying so."""
        return all(group.get("fused") and "capturable" in group for group in optimizer.param_groups)

    def prepare(self) -> None:
        """Record, with gradients that are there and mean nothing; a loss that is not finite keeps all as it is."""
        if self.replay is None:
            self.loss.fill_(torch.nan)
            self.replay, self.norm = self.record(self._clip_and_step)

    def __call__(self, loss: Tensor, lr: float) -> Tensor:
        """The same, without waiting for the device."""
        assert self.replay is not None, "prepared before the gradient was there"
        self.loss.copy_(loss)
        self.lr.fill_(lr)
        self.replay()
        return self.norm.clone()

    def _forget(self, _: torch.optim.Optimizer) -> None:
        """What was recorded writes to the state that the optimizer had."""
        self.replay = None

    def _clip_and_step(self) -> Tensor:
        norm = self.clipped()
        spoilt = ~(self.loss.isfinite() & norm.isfinite())
        with self._told(lr=self.lr, capturable=True), self._unless(spoilt):
            self.optimizer.step()
        return norm

    @contextmanager
    def _told(self, **what: Any) -> Iterator[None]:
        """What the optimizer's groups say inside the block; a checkpoint has what they say outside of it."""
        groups = self.optimizer.param_groups
        before = [{name: group[name] for name in what} for group in groups]
        for group in groups:
            group.update(what)
        try:
            yield
        finally:
            for group, own in zip(groups, before, strict=True):
                group.update(own)

    @contextmanager
    def _unless(self, spoilt: Tensor) -> Iterator[None]:
        """The way in which a scaler of fp16 tells fused optimizers whether to step."""
        optimizer: Any = self.optimizer
        optimizer.grad_scale, optimizer.found_inf = None, spoilt.float()
        try:
            yield
        finally:
            del optimizer.grad_scale, optimizer.found_inf
