"""By which means a run computes: each is chosen once, said on the first screen with the reason, and never changed."""

from __future__ import annotations

__all__ = ["Machinery"]

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from s2s.errors import ConfigError
from s2s.kernels import description
from s2s.nn.endtoend import varlen_serves
from s2s.nn.products import Library, choose
from s2s.packing import Capacity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.config import TrainConfig

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Taken:
    """One way of two, and why."""

    taken: bool
    why: str


@dataclass(frozen=True)
class Machinery:
    """The means of a run; by itself the plain ones, which every device and model has."""

    library: Library = field(default_factory=lambda: Library("torch", "its own choice"))
    """Who multiplies fp32 matrices on a CPU"""
    packed: Taken = Taken(False, "the plain form")
    """Whether sentences lie end to end"""
    longest: int = 0
    """Places of the longest sentence of a constant shape; 0: shapes are as batches need them"""
    graph: Taken = Taken(False, "the plain form")
    """Whether forward and backward are recorded once, as a CUDA graph"""
    compiled: bool = False
    once: bool = False
    """Whether it is an error to compile again"""
    recomputed: bool = False

    @classmethod
    def choose(
        cls, train: TrainConfig, model: Any, loss: Any, device: torch.device, *, n_processes: int = 1, longest: int = 0
    ) -> Machinery:
        """What the configuration asks for, or else what is fastest among what this model, loss and device can do.

        longest: symbols of the longest pair's longer side, end symbol included.
        """
        packed = _packed(train, model, loss, device)
        constant = packed.taken and varlen_serves(device, DTYPES[train.precision])
        return cls(
            library=choose(train.matmul, device),
            packed=packed,
            longest=longest if constant else 0,
            graph=_graph(train, constant=constant, n_processes=n_processes, device=device),
            compiled=train.compile,
            once=train.compile and train.recompile == "fail",
            recomputed=train.activations == "recompute",
        )

    @property
    def constant(self) -> bool:
        """Whether all batches have one shape."""
        return self.longest > 0

    def capacity(self, tokens: int) -> Capacity | None:
        """The shape of batches of so many symbols a side; None: whatever they need."""
        return Capacity(tokens, self.longest) if self.constant else None

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Around forward and backward of a batch."""
        with self.library.multiplying(), compiling_once() if self.once else nullcontext():
            yield

    def facts(self, device: torch.device) -> Iterator[str]:
        """A line for each choice."""
        if device.type == "cpu":
            yield f"fp32 products by {self.library.name}: {self.library.why}"
            yield f"the loss and its gradient by {description()}"
        form = "end to end" if self.packed.taken else "in padded rectangles"
        yield f"sentences {form}{', in one shape' if self.constant else ''}: {self.packed.why}"
        if device.type == "cuda":
            yield f"{'a CUDA graph of' if self.graph.taken else 'eager'} forward and backward: {self.graph.why}"
        if self.compiled:
            yield "model compiled" + (", for one shape" if self.constant else "") + (", once" if self.once else "")
        if self.recomputed:
            yield "activations inside layers are computed again in backward"


@contextmanager
def compiling_once() -> Iterator[None]:
    """Inside the block, what torch.compile has compiled may not be compiled again."""
    from torch import _dynamo as dynamo  # which takes a second to import

    with dynamo.config.patch(error_on_recompile=True):
        try:
            yield
        except dynamo.exc.RecompileError as error:
            raise ConfigError(
                f"train.recompile=fail, and a batch needs the model compiled once more; give train.recompile=allow, or "
                f"train.compile=false. {error}"
            ) from None


def _packed(train: TrainConfig, model: Any, loss: Any, device: torch.device) -> Taken:
    able = getattr(model, "packs", False) and getattr(loss, "packs", False)
    if train.packed is not None:
        return Taken(train.packed and able, "as asked" if able else "this model or loss takes no other")
    if not able:
        return Taken(False, "this model or loss takes no other")
    if device.type == "cpu":
        return Taken(False, "on a CPU the way to and from attention costs what padding does")
    if not varlen_serves(device, DTYPES[train.precision]):
        return Taken(False, "flash attention takes 16-bit numbers on CUDA devices from 8.0")
    return Taken(True, "flash attention takes them as they lie")


def _graph(train: TrainConfig, *, constant: bool, n_processes: int, device: torch.device) -> Taken:
    obstacles = {
        "as asked": train.graph is False,
        "only CUDA has it": device.type != "cuda",
        "shapes are not constant": not constant,
        "several processes send gradients meanwhile": n_processes > 1,
        "the scale of fp16 changes": train.precision == "fp16",
        "recomputing draws dropout anew": train.activations != "keep",
    }
    why = next((reason for reason, holds in obstacles.items() if holds), None)
    return Taken(False, why) if why else Taken(True, "one shape, one process")
