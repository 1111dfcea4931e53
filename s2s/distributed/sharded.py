"""Every process holds a part of each parameter, of its gradient and of the optimizer's state: FSDP2.

The layers of a model (the elements of its ModuleLists) are gathered one at a time, when they are called, and let go
of when they are done; what belongs to no layer, such as embeddings, stays until the end of backward. Outside of
training a tensor is whole: checkpoints do not tell by which strategy, or how many processes, they were written.
"""

from __future__ import annotations

__all__ = ["Sharded", "parts", "whole"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from s2s.model import map_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from s2s.distributed.world import World

T = TypeVar("T")


class Sharded:
    """train.strategy=fsdp."""

    needs_all = True  # a layer is gathered from all processes

    def __init__(self, world: World, dtype: torch.dtype) -> None:
        """`dtype`: of the forward pass; a GPU's layers are gathered in it, parts and sums of gradients are in fp32."""
        self.world = world
        gathered = dtype if world.device.type == "cuda" and dtype != torch.float32 else None
        self.policy = MixedPrecisionPolicy(param_dtype=gathered, reduce_dtype=torch.float32)
        self.units: list[FSDPModule] = []

    def place(self, model: nn.Module) -> None:
        """Keep a part of every parameter."""
        mesh = DeviceMesh(self.world.device.type, torch.arange(self.world.size))
        lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
        layers = dict.fromkeys(layer for modules in lists for layer in modules)  # one that stands there twice is one
        for module in [*reversed(layers), model]:  # from the inside out, as torch wants it
            fully_shard(module, mesh=mesh, mp_policy=self.policy, reshard_after_forward=module is not model)
            assert isinstance(module, FSDPModule)
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
            module.register_forward_pre_hook(lambda *_: self.world.beat(), prepend=True)  # before it is gathered
            self.units.append(module)

    @contextmanager
    def learning(self, *, last: bool) -> Iterator[None]:
        """Gradients of all micro-batches but the last one accumulate whole, and are not sent."""
        self.units[-1].set_requires_gradient_sync(last)
        with self.world.collective("the layers and gradients"):
            yield

    def sum_gradients(self) -> None:
        """The last backward has done it."""

    @contextmanager
    def gathered(self, model: nn.Module) -> Iterator[None]:
        """All layers at once."""
        with self.world.collective("the parameters"):
            self._keep_layers(True)
            for unit in self.units[::-1]:
                unit.unshard()
        try:
            yield
        finally:
            self._keep_layers(False)
            for unit in self.units:
                unit.reshard()

    def _keep_layers(self, kept: bool) -> None:
        """Whether layers stay gathered after they were called; what is in no layer always does, until backward."""
        for unit in self.units[:-1]:
            unit.set_reshard_after_forward(not kept, recurse=False)


def whole(tree: T, world: World) -> T:
    """The same tree with whole tensors, on the CPU of the first process; on the others, empty ones.

    One tensor at a time: no process holds all of them but the first. Those that are whole stay as they are.
    """

    def gather(t: Tensor) -> Tensor:
        if isinstance(t, DTensor):
            with world.collective("the checkpoint"):
                full = t.full_tensor().detach()
            return full.cpu() if world.is_first else full.new_empty(0)
        return t

    return map_tensors(gather, tree)


def parts(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors, cut as those of the same names in `like` are: nothing is sent, each process has read them all."""
    return {name: _part(t, like.get(name)) for name, t in tensors.items()}


def _part(tensor: Tensor, like: Tensor | None) -> Tensor:
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    here = tensor.to(like.device)
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)
