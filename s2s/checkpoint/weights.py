"""The weights in checkpoints: the evaluated ones, their average, and loading them into a model."""

from __future__ import annotations

__all__ = ["average_weights", "evaluated_weights", "load_weights", "narrow", "size_limit", "weighted_mean"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from s2s.checkpoint.directory import Checkpoint, load
from s2s.errors import CheckpointError, is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

WEIGHTS = ("model", "ema")
PIECE = 1 << 22
"""Elements of a tensor that are summed in float64 at once"""
DRAWS = {torch.Tensor.uniform_, torch.Tensor.normal_, nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_}
"""What fills a tensor with random numbers; other functions of torch.nn.init call the first two"""


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


class SkippedDraws(TorchFunctionMode):
    """In its block, tensors are not filled with random numbers: a model is built whose weights are loaded at once.

    Drawing them is most of the time in which a large model is loaded, and takes memory beside what is loaded. A mode of
    functions, since one of dispatched operators imports torch.compile, which takes longer than to decode a line.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in DRAWS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def size_limit(tensors: Mapping[str, Tensor], source: Path) -> Iterator[None]:
    """Build a model in the block whose weights will be `tensors`: they are not initialised at random. Raises
    CheckpointError as soon as it is far larger than they are.

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
        with SkippedDraws():
            yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise CheckpointError(
            f"{source}: there is no memory for the model of its configuration, which is that of another one, or damaged"
        ) from None
    finally:
        hook.remove()


@torch.no_grad()
def narrow(model: nn.Module, dtype: torch.dtype) -> None:
    """Hold each parameter in `dtype`, if that has 16 bits, where that is exact; one after the other."""
    for parameter in model.parameters() if dtype in (torch.bfloat16, torch.float16) else ():
        narrowed = parameter.to(dtype)
        pieces = zip(parameter.reshape(-1).split(PIECE), narrowed.reshape(-1).split(PIECE), strict=True)
        if all(torch.equal(wide, piece.to(wide.dtype)) for wide, piece in pieces):
            parameter.data = narrowed


def _weighted_mean(tensors: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    if not tensors[0].is_floating_point():
        return tensors[-1]
    if all(torch.equal(tensors[0], tensor) for tensor in tensors[1:]):
        return tensors[0]  # frozen ones: no copy of what is mapped
    mean = torch.empty_like(tensors[0])
    pieces = zip(*(tensor.reshape(-1).split(PIECE) for tensor in (mean, *tensors)), strict=True)
    for result, *parts in pieces:
        total = torch.zeros_like(result, dtype=torch.float64)
        for part, weight in zip(parts, weights, strict=True):
            total.add_(part, alpha=weight)
        result.copy_(total / sum(weights))
    return mean


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
