"""The bytes that a rank holds of weights, gradients and the optimizer's state between two updates."""

from __future__ import annotations

__all__ = ["held_bytes", "held_of_meta_tensors"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves

from harness.pretend_ranks import in_group
from s2s.distributed.strategy import chosen_strategy
from s2s.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from s2s.plugin import Plugins


def held_bytes(parameters: Iterable[Tensor], optimizer: torch.optim.Optimizer) -> int:
    """Of this rank's parts. Numbers, such as counts of updates, are not counted."""
    given = list(parameters)
    tensors = [*given, *(p.grad for p in given), *tree_leaves(list(optimizer.state.values()))]
    parts = [t.to_local() if isinstance(t, DTensor) else t for t in tensors if isinstance(t, Tensor) and t.dim()]
    return sum(part.nbytes for part in parts)


def held_of_meta_tensors(run: Path, rank: int, size: int, plugins: Plugins) -> int:
    """What a rank of so many would hold of a run, of which nothing is allocated, and without the other ranks."""
    config, task = Run.load_task(run, plugins)
    with in_group(rank, size) as (world, _):
        with torch.device("meta"):
            model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
        strategy = chosen_strategy(config.train, plugins.registry)
        assert strategy
        strategy.share(world, torch.float32).wrap(model)
        optimizer = plugins.registry.get("optim", config.optim.name).build(config.optim, list(model.parameters()))
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        assert all(p.is_meta for p in model.parameters())
        return held_bytes(model.parameters(), optimizer)
