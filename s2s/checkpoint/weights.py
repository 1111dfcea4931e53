"""The weights in checkpoints: the evaluated ones, their average, and loading them into a model."""

from __future__ import annotations

__all__ = ["average_weights", "evaluated_weights", "load_weights", "size_limit", "weighted_mean"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from s2s.checkpoint.directory import Checkpoint, load
from s2s.errors import CheckpointError, is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn

WEIGHTS = ("model", "ema")


def evaluated_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The weights that validation evaluated: the moving averages, if any, under all names of a tied tensor.

    Raises CheckpointError if one holds NaN; a buffer may hold infinity, such as a mask that is added to scores.
    """
    if "model" not in checkpoint.tensors:
        raise CheckpointError(f"{checkpoint.path} holds no weights of a model")
    model, ema = checkpoint.tensors["model"], checkpoint.tensors.get("ema", {})
    averaged = {id(model[name]): t for name, t in ema.items() if name in model}  # tied names share one tensor
    weights = {name: averaged.get(id(t), t) for name, t in model.items()}
    if spoilt := [name for name, t in weights.items() if t.isnan().any()]:
        raise CheckpointError(f"{checkpoint.path}: {spoilt[0]} holds NaN: no model that works; give another checkpoint")
    return weights


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the evaluated weights of several checkpoints (section 6.1)."""
    members = [evaluated_weights(load(path, only=WEIGHTS)) for path in paths]
    for path, member in zip(paths, members, strict=True):
        wrong = _differences(member, members[0])
        if wrong:
            raise CheckpointError(f"{path} cannot be averaged with {paths[0]}: {wrong}")
    return weighted_mean(members, [1] * len(members))


def weighted_mean(members: Sequence[Mapping[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """The mean of models, summed in float64; integer tensors, such as counters, are taken from the last of them."""
    done: dict[int, Tensor] = {}  # tied weights stay one tensor
    for name, first in members[0].items():
        if id(first) not in done:
            done[id(first)] = _weighted_mean([member[name] for member in members], weights)
    return {name: done[id(first)] for name, first in members[0].items()}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copy the weights of the checkpoint `source` into `model`; raises CheckpointError naming any differences."""
    wrong = _differences(tensors, model.state_dict())
    if wrong:
        raise CheckpointError(
            f"{source} does not fit the model: {wrong}. It belongs to another configuration: use the one "
            "that lies in its own run directory"
        )
    model.load_state_dict(tensors)


@contextmanager
def size_limit(tensors: Mapping[str, Tensor], source: Path) -> Iterator[None]:
    """Raise CheckpointError as soon as a model that is built in the block is far larger than the weights `tensors`.

    A configuration that came with a checkpoint may specify a million layers, and building them would take all memory.
    While a model is built, parameters may be replaced, as tied ones are, so four times as many are allowed.
    """
    n_left = 4 * len(tensors) + 100
    elements_left = 4 * sum(t.numel() for t in tensors.values()) + (1 << 20)

    def count(_module: nn.Module, _name: str, parameter: nn.Parameter) -> None:
        nonlocal n_left, elements_left
        n_left, elements_left = n_left - 1, elements_left - parameter.numel()
        if min(n_left, elements_left) < 0:
            raise CheckpointError(
                f"{source} does not fit the model, which has more than four times as many weights: its configuration "
                "belongs to another one, or is damaged"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise CheckpointError(
            f"{source}: there is no memory for the model of its configuration, which is that of another one, or damaged"
        ) from None
    finally:
        hook.remove()


def _weighted_mean(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    if not tensors[0].is_floating_point():
        return tensors[-1]
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor, weight in zip(tensors, weights, strict=True):
        total.add_(tensor, alpha=weight)
    return (total / sum(weights)).to(tensors[0].dtype)


def _differences(saved: Mapping[str, Tensor], here: Mapping[str, Tensor]) -> str:
    """In words, the names and shapes in which two sets of weights differ; empty if they do not."""
    shapes = [
        f"'{name}' is {list(saved[name].shape)} there and {list(here[name].shape)} here"
        for name in here
        if name in saved and saved[name].shape != here[name].shape
    ]
    lacking = [f"'{name}' is not there" for name in here if name not in saved]
    unknown = [f"'{name}' is not here" for name in saved if name not in here]
    words = shapes + lacking + unknown
    return "; ".join(words[:3]) + (f"; and {len(words) - 3} more" if len(words) > 3 else "")
