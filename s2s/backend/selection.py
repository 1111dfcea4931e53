"""Which backends a run computes with: each is selected once at the start, logged with the reason, and never changed."""

from __future__ import annotations

__all__ = ["DTYPES", "BackendSelection", "Decision", "as_in_training"]

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from s2s.backend.device_types import device_of
from s2s.backend.host import training_threads
from s2s.backend.matmul import MatmulBackend, select_matmul
from s2s.backend.operators.operator import description
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.config import TrainConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "auto": torch.float32}


@dataclass(frozen=True)
class Decision:
    """Whether an optional feature is used, and why."""

    enabled: bool
    reason: str


@dataclass(frozen=True)
class BackendSelection:
    """The backends of a run; the defaults work on every device and with every model."""

    matmul: MatmulBackend = field(default_factory=lambda: MatmulBackend("torch", "default"))
    """Backend of fp32 matrix products on a CPU"""
    packed: Decision = Decision(False, "default")
    """Whether batches are packed: sentences end to end instead of padded"""
    max_len: int = 0
    """Longest sentence of the one static shape of packed batches; 0: shapes vary from batch to batch"""
    cuda_graph: Decision = Decision(False, "default")
    """Whether forward and backward are captured in a CUDA graph"""
    compiled: bool = False
    fail_on_recompile: bool = False
    activation_checkpointing: bool = False

    @classmethod
    def select(
        cls,
        train: TrainConfig,
        model: Any,
        objective: Any,
        device: torch.device,
        *,
        n_processes: int,
        longest: int,
    ) -> BackendSelection:
        """What the configuration specifies, or else the fastest that this model, objective and device support.

        longest: tokens of the longest pair's longer side, eos included.
        """
        packed = _packed(train, model, objective, device)
        static = packed.enabled and device_of(device).has_varlen_attention(DTYPES[train.precision])
        return cls(
            matmul=select_matmul(train.matmul, device),
            packed=packed,
            max_len=longest if static else 0,
            cuda_graph=_cuda_graph(train, objective, static=static, n_processes=n_processes, device=device),
            compiled=train.compile,
            fail_on_recompile=train.compile and train.recompile == "fail",
            activation_checkpointing=train.activations == "recompute",
        )

    @property
    def static_shapes(self) -> bool:
        """Whether all batches have one shape."""
        return self.max_len > 0

    @contextmanager
    def forward_backward(self) -> Iterator[None]:
        """The context in which forward and backward of a batch run."""
        with self.matmul.active(), no_recompilation() if self.fail_on_recompile else nullcontext():
            yield

    def describe(self, device: torch.device) -> Iterator[str]:
        """A line for each selection."""
        if device.type == "cpu":
            yield f"fp32 matmul by {self.matmul.name}: {self.matmul.reason}"
            yield f"loss, dropout and norms by {description()}"
        form = "packed" if self.packed.enabled else "padded"
        yield f"batches {form}{', of one static shape' if self.static_shapes else ''}: {self.packed.reason}"
        if device_of(device).supports_graphs:
            form = "a CUDA graph of" if self.cuda_graph.enabled else "eager"
            yield f"{form} forward and backward: {self.cuda_graph.reason}"
        if self.compiled:
            static, once = ", static shapes" if self.static_shapes else "", ", once" if self.fail_on_recompile else ""
            yield f"model compiled{static}{once}"
        if self.activation_checkpointing:
            yield "activation checkpointing: layers are computed again in backward"


@contextmanager
def as_in_training(train: TrainConfig, device: torch.device) -> Iterator[None]:
    """Inside the block, products are computed in the threads and by the library that training with `train` uses."""
    with training_threads(train.threads), select_matmul(train.matmul, device).active():
        yield


@contextmanager
def no_recompilation() -> Iterator[None]:
    """Inside the block, a recompilation by torch.compile raises ConfigError."""
    from torch import _dynamo as dynamo  # which takes a second to import

    with dynamo.config.patch(error_on_recompile=True):
        try:
            yield
        except dynamo.exc.RecompileError as error:
            raise ConfigError(
                f"train.recompile=fail, and a batch needs the model compiled once more; give train.recompile=allow, or "
                f"train.compile=false. {error}"
            ) from None


def _packed(train: TrainConfig, model: Any, objective: Any, device: torch.device) -> Decision:
    supported = getattr(model, "supports_packing", False) and getattr(objective, "supports_packing", False)
    if train.packed is not None:
        reason = "as configured" if supported else "this model or objective supports padded batches only"
        return Decision(train.packed and supported, reason)
    if not supported:
        return Decision(False, "this model or objective supports padded batches only")
    if device.type == "cpu":
        return Decision(False, "packing them is no faster on a CPU")
    if not device_of(device).has_varlen_attention(DTYPES[train.precision]):
        return Decision(False, "varlen flash attention needs 16-bit numbers on CUDA devices from 8.0")
    return Decision(True, "varlen flash attention")


def _cuda_graph(
    train: TrainConfig, objective: Any, *, static: bool, n_processes: int, device: torch.device
) -> Decision:
    obstacles = {
        "as configured": train.graph is False,
        "the objective cannot be captured": not getattr(objective, "supports_cuda_graph", False),
        f"{device.type} has none": not device_of(device).supports_graphs,
        "shapes are not static": not static,
        "several processes exchange gradients meanwhile": n_processes > 1,
        "the loss scale of fp16 changes": train.precision == "fp16",
        "activation checkpointing draws dropout again": train.activations != "keep",
    }
    reason = next((reason for reason, holds in obstacles.items() if holds), None)
    return Decision(False, reason) if reason else Decision(True, "static shapes, one process")
