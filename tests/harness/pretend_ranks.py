"""One rank of a large world in one process, without the others: every collective of s2s-train is recorded.

`record` runs ranks one after another in a process group without communication. A collective returns what it
would if every other rank had sent what this one sent (all-gather, all-reduce with MAX) or zeros (broadcast,
all-to-all), or, of small tensors, what the recorded ranks sent in the pass before. So branches that depend on a sum of
flags or on exchanged sizes are those of a real run, whereas weights and losses mean nothing.

Ranks whose lists differ would wait for each other for ever, or read past the end of a message.
"""

from __future__ import annotations

__all__ = ["Collective", "PretendGroup", "Sent", "first_difference", "in_group", "record"]

import os
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from torch import distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.distributed.tensor._redistribute import _gen_transform_infos
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.futures import Future

from s2s_distributed.process_group import ProcessGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from s2s.distributed import World

SMALL = 1 << 16
"""Numbers in the largest tensor of them that is exchanged between passes; sizes and texts always are"""


class Collective(NamedTuple):
    """A collective of one rank; those of all ranks must be equal."""

    kind: str
    n_elements: int
    """Of what this rank sends; of an all-to-all, whose parts may differ from rank to rank, the size of a row; 0 for
    text, which all ranks pad to the longest size that was exchanged before"""
    dtype: torch.dtype
    detail: str = ""
    """The reduction, or the rank that sends"""


@dataclass
class Sent:
    """What one rank did in one pass."""

    collectives: list[Collective] = field(default_factory=list)
    small: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """By kind of collective, and the number among those of that kind"""
    splits: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """Rows of each all-to-all that go to and come from each rank"""


class PretendGroup(dist.ProcessGroup):
    """A process group in which only this rank is present."""

    def __init__(self, rank: int, size: int, sent: Sent, earlier: Mapping[int, Sent]) -> None:
        """sent: where this rank's collectives are recorded. earlier: what ranks sent in the pass before."""
        super().__init__(rank, size)
        self.own_rank, self.n_ranks, self.sent, self.earlier = rank, size, sent, earlier

    def size(self) -> int:
        """The number of ranks."""
        return self.n_ranks

    @property
    def group_name(self) -> str:
        """Its name among torch's groups."""
        return dist.distributed_c10d._world.pg_names[self]

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> dist.Work:
        """Sums are those of the recorded ranks, of large tensors this rank's own."""
        (tensor,), reduce_op = tensors, getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        is_max = reduce_op == dist.ReduceOp.MAX
        key = self._record("all_reduce", tensor, "max" if is_max else "sum")
        for other in self._others(key).values():
            if other.shape == tensor.shape:
                tensor.copy_(torch.maximum(tensor, other) if is_max else tensor + other)
        return done(tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> dist.Work:
        """Texts are padded to the longest: another rank's may be shorter than the buffer."""
        sent_by = {**self._others(self._record("all_gather", inputs[0])), self.own_rank: inputs[0]}
        usual = sent_by[min(sent_by)]  # by ranks that are not recorded: the same to every recorded rank
        for rank, output in enumerate(outputs[0]):
            sent = sent_by.get(rank, usual).flatten()[: output.numel()]
            output.zero_().view(-1)[: sent.numel()] = sent
        return done(outputs)

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> dist.Work:
        """Parameters: everyone's part is taken to be this rank's."""
        self._record("all_gather_single", given)
        output.view(self.n_ranks, -1).copy_(given.clone().reshape(1, -1))
        return done([output])

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> dist.Work:
        """This rank's part of its own gradients."""
        self._record("reduce_scatter_single", given, f"to {output.numel()}")
        output.view(-1).copy_(given.view(self.n_ranks, -1)[self.own_rank].clone())
        return done([output])

    def all_gather_single_coalesced(self, outputs: list[Tensor], given: list[Tensor], opts: Any = None) -> dist.Work:
        """As DTensor.full_tensor gathers."""
        for output, part in zip(outputs, given, strict=True):
            self.all_gather_single(output, part, opts)
        return done(outputs)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> dist.Work:
        """Zeros from another rank."""
        self._record("broadcast", tensors[0], f"from {opts.rootRank}")
        if opts.rootRank != self.own_rank:
            tensors[0].zero_()
        return done(tensors)

    def all_to_all_single(
        self, output: Tensor, given: Tensor, received: list[int], sent: list[int], opts: Any = None
    ) -> dist.Work:
        """Zeros from the others."""
        self._record("all_to_all_single", given.new_empty(given.shape[1:]))
        self.sent.splits.append((sent, received))
        output.zero_()
        return done([output])

    def barrier(self, opts: Any = None) -> dist.Work:
        """Nobody is awaited."""
        self._record("barrier", torch.empty(0))
        return done([])

    def _record(self, kind: str, tensor: Tensor, detail: str = "") -> tuple[str, int]:
        """The kind of this collective, and its number among those of that kind."""
        number = sum(one.kind == kind for one in self.sent.collectives)
        n_elements = 0 if tensor.dtype == torch.uint8 else tensor.numel()
        self.sent.collectives.append(Collective(kind, n_elements, tensor.dtype, detail))
        if tensor.numel() <= SMALL or not tensor.is_floating_point():
            self.sent.small[kind, number] = tensor.detach().clone()
        return kind, number

    def _others(self, key: tuple[str, int]) -> dict[int, Tensor]:
        """What other recorded ranks sent in the same collective of the pass before."""
        sent = {rank: sent.small[key] for rank, sent in self.earlier.items() if key in sent.small}
        return {rank: tensor for rank, tensor in sent.items() if rank != self.own_rank}


def done(result: Any) -> dist.Work:
    """Work that is finished."""
    future: Future[Any] = Future()
    future.set_result(result)
    return _create_work_from_future(future)


class NoWatchdog:
    """Nobody hangs."""

    step = 0

    def collective(self, _: str) -> AbstractContextManager[None]:
        """Nothing to do."""
        return nullcontext()

    def beating(self) -> AbstractContextManager[None]:
        """Nothing to do."""
        return nullcontext()

    def heartbeat(self) -> None:
        """Nothing to do."""

    def wait_for_main(self, *_: object) -> None:
        """Rank 0 is never awaited."""

    def close(self) -> None:
        """Nothing to do."""


@contextmanager
def in_group(rank: int, size: int, earlier: Mapping[int, Sent] | None = None) -> Iterator[tuple[World, Sent]]:
    """A world of so many ranks, of which this process is one, and what it sends."""
    sent, store = Sent(), dist.HashStore()
    group = partial(PretendGroup, rank, size, sent, earlier or {})
    dist.Backend.register_backend("pretend", lambda *_: group(), devices=["cpu"])
    dist.init_process_group("pretend", store=store, rank=rank, world_size=size)
    watchdog: Any = NoWatchdog()
    given: Any = store
    _clear_sharding_prop_cache()  # torch remembers shards by their mesh, which is the same for the rank before
    _gen_transform_infos.cache_clear()
    try:
        yield ProcessGroup(rank, size, rank, torch.device("cpu"), store=given, watchdog=watchdog), sent
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def record(run: Callable[[int], object], ranks: Sequence[int], size: int, passes: int = 2) -> dict[int, Sent]:
    """What each of these ranks sends in the last of so many passes, in each of which `run(rank)` joins a world.

    Rank 0 goes last in each: it writes the checkpoints that the others would otherwise find.
    """
    sent: dict[int, Sent] = {}
    for _ in range(passes):
        now: dict[int, Sent] = {}
        for rank in sorted(ranks, reverse=True):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
            with (
                in_group(rank, size, {**sent, **now}) as (world, now[rank]),
                patch.dict(os.environ, place),
                patch("s2s_distributed.process_group.join", lambda *_, world=world: world),
            ):
                run(rank)
        sent = now
    return sent


def first_difference(sent: Mapping[int, Sent]) -> str:
    """Where the collectives of two ranks first differ; empty if they do not."""
    (first, expected), *others = sorted(sent.items())
    for rank, found in others:
        for number, pair in enumerate(zip_longest(expected.collectives, found.collectives)):
            if pair[0] != pair[1]:
                return f"collective {number}: rank {first} has {pair[0]}, rank {rank} has {pair[1]}"
    return ""
