"""Compares an optimizer's state from a checkpoint with what the optimizer keeps, before any step uses it.

A fused kernel reads as many moments as there are weights, whatever the size of the state.
"""

from __future__ import annotations

__all__ = ["check_same_state"]

import copy
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch.optim import Optimizer


def check_same_state(optimizer: Optimizer, state: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise ValueError naming the first value of `state`, by parameter number, that this optimizer cannot have.

    Such a value is missing, of another shape or type, NaN, or a negative step count. A parameter without any state,
    such as a frozen one, was never stepped. If an optimizer cannot step a small tensor alone, only NaN and step counts
    are checked.
    """
    parameters = [(group, p) for group in optimizer.param_groups for p in group["params"]]
    examples: dict[tuple[int, int, torch.dtype], dict[str, Any]] = {}
    for number, (group, p) in enumerate(parameters):
        saved, kind = state.get(number, {}), (id(group), p.ndim, p.dtype)
        if not saved:
            continue
        if kind not in examples:
            examples[kind] = _example(optimizer, group, p)
        for name in {**examples[kind], **saved}:
            if wrong := _difference(name, examples[kind].get(name), saved.get(name), p):
                raise ValueError(f"optim.state.{number}.{name} {wrong}")


def _example(optimizer: Optimizer, group: Mapping[str, Any], parameter: Tensor) -> dict[str, Any]:
    """The state after one step of a small parameter with as many dimensions; {} if the optimizer cannot step it."""
    small = nn.Parameter(torch.zeros(_small_shape(parameter), dtype=parameter.dtype, device=parameter.device))
    small.grad = torch.zeros_like(small)
    with suppress(Exception):  # a plugin's optimizer may need all of its parameters, or a closure
        other = copy.copy(optimizer)
        other.state, other.param_groups = defaultdict(dict), [{**group, "params": [small], "lr": 0.0}]
        other.step()
        return dict(other.state[small])
    return {}


def _small_shape(parameter: Tensor) -> torch.Size:
    return torch.Size(range(2, 2 + parameter.ndim))


def _difference(name: str, example: Any, saved: Any, parameter: Tensor) -> str:
    """In words, how a saved value contradicts `example`; "" if it does not, or if there is no example."""
    if isinstance(saved, Tensor) and saved.is_floating_point() and saved.isnan().any():
        return "holds NaN"
    if name == "step" and isinstance(saved, Tensor) and saved.numel() == 1 and saved.item() < 0:
        return f"is {saved.item()}"
    if not isinstance(example, Tensor):
        return ""
    if not isinstance(saved, Tensor):
        return "is not there" if saved is None else f"is {str(saved)[:60]!r}"
    of_parameter = example.shape == _small_shape(parameter)
    shape = parameter.shape if of_parameter else example.shape
    if of_parameter and not parameter.numel():  # its rows belong to other processes
        shape = saved.shape[:1] + parameter.shape[1:]
    if saved.shape != shape and (of_parameter or not example.ndim):  # other shapes may depend on the parameter's
        return f"is {list(saved.shape)} instead of {list(shape)}"
    return f"is {saved.dtype} instead of {example.dtype}" if saved.dtype != example.dtype else ""
