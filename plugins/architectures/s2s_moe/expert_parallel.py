"""train.strategy=experts: each rank holds a share of every mixture's experts, and all other parameters.

Each rank sends its tokens to the ranks that hold their experts, which compute and send the results back (all-to-all, as
in Shazeer et al., 2017, section 3.1, and Lepikhin et al., 2021). An expert's gradient is complete on the rank that
holds it, since that rank computes the tokens of all ranks; the other gradients are summed over the ranks.

A parameter of another rank's expert has no rows here; parameter names stay the same, and checkpoints hold whole
tensors, whatever the number of ranks.
"""

from __future__ import annotations

__all__ = ["ExpertParallel"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.utils import get_total_norm

from s2s import ConfigError
from s2s.distributed import Unsharded, make_buckets
from s2s.tensors import list_tensors, map_tensors
from s2s_moe.exchange import Exchange
from s2s_moe.layer import MixtureLayer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s.distributed import World

T = TypeVar("T")


class ExpertShard(NamedTuple):
    """A parameter held by one rank."""

    parameter: nn.Parameter
    owner: int
    shape: torch.Size
    """Shape of the whole parameter; on ranks other than the owner, its first dimension is 0"""


class ExpertParallel(Unsharded):
    """train.strategy=experts."""

    needs_every_rank = True  # exchanging tokens is a collective

    def __init__(self, world: World, dtype: torch.dtype) -> None:
        if dtype == torch.float16:
            raise ConfigError(
                "train.strategy=experts: the loss scale of train.precision=fp16 would differ from rank to rank; "
                "give train.precision=bf16"
            )
        self.world = world
        self.layers: list[MixtureLayer] = []
        self.expert_shards: list[ExpertShard] = []
        self.shared: list[nn.Parameter] = []

    def wrap(self, model: nn.Module, objective: nn.Module | None = None) -> None:
        """Drop the experts of other ranks."""
        self.layers = [module for module in model.modules() if isinstance(module, MixtureLayer)]
        if not self.layers:
            raise ConfigError("train.strategy=experts: the model has no mixture of experts; give train.strategy=ddp")
        for layer in self.layers:
            layer.exchange = Exchange(self.world, owners(len(layer.experts), self.world.size))
            for expert, owner in zip(layer.experts, layer.exchange.owners, strict=True):
                self.expert_shards += [ExpertShard(p, owner, p.shape) for p in expert.parameters()]
        self._drop()
        shard_ids = {id(shard.parameter) for shard in self.expert_shards}
        parameters = [*model.parameters(), *(objective.parameters() if objective else ())]
        self.shared = [p for p in parameters if p.requires_grad and id(p) not in shard_ids]

    @contextmanager
    def micro_batch(self, *, last: bool) -> Iterator[None]:
        """A context for forward and backward passes, which exchange tokens."""
        with self.world.collective("the tokens of experts"):
            yield

    def reduce_gradients(self) -> None:
        """Sum the gradients of all parameters except the experts'."""
        for p in (shard.parameter for shard in self.expert_shards):
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        with self.world.collective("the gradients"):
            for bucket in make_buckets(self.shared):
                bucket.start_reduce()
                bucket.finish_reduce()

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """The norm of all gradients, including those of experts on other ranks."""
        shard_ids = {id(shard.parameter) for shard in self.expert_shards}
        local_grads = [p.grad for p in parameters if p.grad is not None and id(p) in shard_ids and p.numel()]
        shared = get_total_norm([p.grad for p in parameters if p.grad is not None and id(p) not in shard_ids])
        squares = self.world.all_reduce(get_total_norm(local_grads).to(shared).square().reshape(1))
        return (shared.square() + squares[0]).sqrt()

    @contextmanager
    def unsharded(self, module: nn.Module) -> Iterator[None]:
        """A context in which every rank has all experts and computes its own tokens."""
        if not any(isinstance(part, MixtureLayer) for part in module.modules()):  # an objective
            yield
            return
        exchanges = [layer.exchange for layer in self.layers]
        with self.world.collective("the experts"):
            for p, owner, shape in self.expert_shards:
                p.data = self._broadcast(p.data, owner, shape)
        for layer in self.layers:
            layer.exchange = None
        try:
            yield
        finally:
            self._drop()
            for layer, exchange in zip(self.layers, exchanges, strict=True):
                layer.exchange = exchange

    def full_tensors(self, tree: T) -> T:
        """Tensors whose rows only one rank has, complete on rank 0 and empty on the others; other tensors unchanged."""
        shapes = zip(*self.world.all_gather([list(t.shape) for t in list_tensors(tree)]), strict=True)

        def gather(t: Tensor) -> Tensor:
            rank_shapes = next(shapes)
            if all(shape == rank_shapes[0] for shape in rank_shapes):
                return t
            owner = max(range(self.world.size), key=lambda rank: rank_shapes[rank][0])
            with self.world.collective("the checkpoint"):
                full = self._broadcast(t.detach(), owner, torch.Size(rank_shapes[owner]))
            return full.cpu() if self.world.is_main else full.new_empty(0)

        return map_tensors(gather, tree)

    def shard_like(self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors, with those of other ranks' experts reduced to no rows."""
        dropped = {name for name, t in tensors.items() if t.dim() and name in like and is_dropped(like[name], t)}
        return {name: t[:0] if name in dropped else t for name, t in tensors.items()}

    def _drop(self) -> None:
        for p, owner, _ in self.expert_shards:
            if owner != self.world.rank:
                p.data = p.data[:0].clone()

    def _broadcast(self, tensor: Tensor, owner: int, shape: torch.Size) -> Tensor:
        """The owner's tensor, on every rank."""
        full = tensor.contiguous() if owner == self.world.rank else tensor.new_empty(shape)
        dist.broadcast(full, owner)
        return full


def owners(n_experts: int, n_ranks: int) -> list[int]:
    """The rank that holds each expert: contiguous ranges whose sizes differ by at most one."""
    if n_ranks > n_experts:
        raise ConfigError(
            f"train.strategy=experts: {n_ranks} processes, and arch.n_experts={n_experts}; start fewer processes"
        )
    return [expert * n_ranks // n_experts for expert in range(n_experts)]


def is_dropped(like: Tensor, whole: Tensor) -> bool:
    """Whether `like` is the empty remainder of a tensor that another rank holds."""
    return like.numel() == 0 and whole.numel() > 0 and like.shape[1:] == whole.shape[1:]
