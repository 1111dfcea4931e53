"""Every rank holds a shard of each parameter, of its gradient and of the optimizer's state: torch's FSDP2.

The layers of a model (the elements of its ModuleLists) are unsharded one at a time, when they are called, and
resharded afterwards; parameters outside of any layer, such as embeddings, stay unsharded until the end of backward.
Checkpoints hold full tensors: they do not depend on the strategy or the number of ranks that wrote them.
"""

from __future__ import annotations

__all__ = ["FSDP"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.fsdp._fully_shard._fsdp_common import TrainingState
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.utils import get_total_norm
from torch.utils._pytree import register_dataclass

from s2s import Mean, Sums
from s2s.tensors import map_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.distributed import World

for result in (Sums, Mean):  # FSDP looks for the tensors of what a module returns, to hook their backward pass
    register_dataclass(result)
T = TypeVar("T")


class FSDP:
    """train.strategy=fsdp."""

    needs_every_rank = True  # unsharding a layer is a collective

    def __init__(self, world: World, dtype: torch.dtype) -> None:
        """`dtype`: of the forward pass, to which a GPU unshards layers; shards and gradient sums are in fp32."""
        self.world = world
        param_dtype = dtype if world.device.type != "cpu" and dtype != torch.float32 else None
        self.policy = MixedPrecisionPolicy(param_dtype=param_dtype, reduce_dtype=torch.float32)
        self.units: list[FSDPModule] = []
        """The layers of the model, and itself"""
        self.objective: FSDPModule | None = None

    def wrap(self, model: nn.Module, objective: nn.Module | None = None) -> None:
        """Shard every parameter; those of an objective as one unit."""
        mesh = DeviceMesh(self.world.device.type, torch.arange(self.world.size))
        if objective is not None:
            self.objective = self._shard(objective, mesh, reshard=False)
        lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
        layers = dict.fromkeys(layer for modules in lists for layer in modules)  # a shared layer is wrapped once
        for module in [*reversed(layers), model]:  # from the inside out, as torch requires
            self.units.append(self._shard(module, mesh, reshard=module is not model))
        for name in ("encode", "decode"):
            _unshard_before(model, name)

    def _shard(self, module: nn.Module, mesh: DeviceMesh, *, reshard: bool) -> FSDPModule:
        fully_shard(module, mesh=mesh, mp_policy=self.policy, reshard_after_forward=reshard)
        assert isinstance(module, FSDPModule)
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
        module.register_forward_pre_hook(lambda *_: self.world.heartbeat(), prepend=True)  # before it is unsharded
        return module

    @contextmanager
    def micro_batch(self, *, last: bool) -> Iterator[None]:
        """Gradients of all micro-batches but the last are accumulated unsharded, and not reduced."""
        for root in filter(None, (self.units[-1], self.objective)):
            root.set_requires_gradient_sync(last)
        with self.world.collective("the layers and gradients"):
            yield

    def reduce_gradients(self) -> None:
        """Nothing to do: the backward of the last micro-batch has reduced them."""

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """The gradient norm over all shards."""
        norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @contextmanager
    def unsharded(self, module: nn.Module) -> Iterator[None]:
        """Unshard all layers at once."""
        assert isinstance(module, FSDPModule)
        units = [module] if module is self.objective else self.units
        # Decoding calls layers without the model's forward: torch must know which module is the root before that.
        units[-1]._get_fsdp_state()._lazy_init()
        with self.world.collective("the parameters"):
            _reshard_after_forward(units[:-1], False)
            for unit in units[::-1]:
                unit.unshard()
        try:
            yield
        finally:
            _reshard_after_forward(units[:-1], True)
            for unit in units:
                unit.reshard()

    def full_tensors(self, tree: T) -> T:
        """Every DTensor unsharded, on the CPU of rank 0; empty tensors on the other ranks.

        One tensor at a time, so that only rank 0 ever holds all of them. Plain tensors are unchanged.
        """

        def gather(t: Tensor) -> Tensor:
            if isinstance(t, DTensor):
                with self.world.collective("the checkpoint"):
                    full = t.full_tensor().detach()
                return full.cpu() if self.world.is_main else full.new_empty(0)
            return t

        return map_tensors(gather, tree)

    def shard_like(self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors sharded like `like`, without communication: every rank has all of them."""
        return {name: _shard_like(t, like.get(name)) for name, t in tensors.items()}


def _reshard_after_forward(units: Sequence[FSDPModule], reshard: bool) -> None:
    """Whether layers are resharded after forward; parameters outside layers never are, until backward."""
    for unit in units:
        unit.set_reshard_after_forward(reshard, recurse=False)


def _unshard_before(model: nn.Module, name: str) -> None:
    """Unshard parameters outside layers for a method that an objective calls directly, outside `forward`."""
    assert isinstance(model, FSDPModule)
    within, state = getattr(model, name), model._get_fsdp_state()
    register_fsdp_forward_method(model, name)
    alone = getattr(model, name)

    def method(*args: Any) -> Any:
        return within(*args) if state._training_state == TrainingState.FORWARD else alone(*args)

    setattr(model, name, method)


def _shard_like(tensor: Tensor, like: Tensor | None) -> Tensor:
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
