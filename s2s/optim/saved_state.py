"""Loads an optimizer's state from a checkpoint, compared with what the optimizer keeps before any step uses it.

A fused kernel reads as many moments as there are weights, whatever the size of the state.
"""

from __future__ import annotations

__all__ = ["check_same_kind", "check_same_state", "load_state"]

import copy
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.optim import Optimizer

    Shard = Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], dict[str, Tensor]]

NUMBER = int | float | Tensor


def load_state(optimizer: Optimizer, saved: Mapping[str, Any], shard_like: Shard) -> None:
    """Load what `Optimizer.state_dict` returned, with full tensors; `shard_like` is that of the strategy.

    Tensors keep the types that they were saved in, such as step counts in fp32 beside weights in bf16. Options of
    groups that were not saved, which a newer torch has added, stay as they are. Raises ValueError or TypeError if this
    optimizer cannot have saved it.
    """
    check_same_state(optimizer, saved["state"])
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    held = {n: p for n, p in enumerate(parameters) if n in saved["state"]}
    sharded = {n: _sharded(saved["state"][n], p, shard_like) for n, p in held.items()}
    groups = [_completed(own, group) for own, group in zip(optimizer.param_groups, saved["param_groups"], strict=True)]
    optimizer.load_state_dict({**saved, "state": {**saved["state"], **sharded}, "param_groups": groups})
    for n, p in held.items():
        _restore_types(optimizer.state[p], sharded[n])


def _sharded(state: Mapping[str, Any], parameter: nn.Parameter, shard_like: Shard) -> dict[str, Any]:
    """The state of one parameter, with this rank's parts of its tensors."""
    tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
    return {**state, **shard_like(tensors, dict.fromkeys(tensors, parameter))}


def _completed(own: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a saved group, and those of the optimizer that were not saved."""
    for name in (own.keys() & saved.keys()) - {"params"}:
        check_same_kind(name, own[name], saved[name])
    return {**own, **saved}


def _restore_types(loaded: dict[str, Any], saved: Mapping[str, Any]) -> None:
    """Undo that torch casts floating-point tensors of the state to the type of the weights."""
    for name, value in saved.items():
        if isinstance(value, Tensor) and loaded[name].dtype != value.dtype:
            loaded[name] = value.to(loaded[name].device)


def check_same_kind(name: str, current: Any, saved: Any) -> None:
    """Raise TypeError unless an option of the optimizer was saved as a value of its kind."""
    are_tuples = isinstance(current, tuple) and isinstance(saved, tuple)
    if are_tuples and len(current) == len(saved):
        for each, other in zip(current, saved, strict=True):
            check_same_kind(name, each, other)
        return
    is_number = [isinstance(value, NUMBER) and not isinstance(value, bool) for value in (current, saved)]
    if are_tuples or (not all(is_number) and type(current) is not type(saved)):
        raise TypeError(f"optim.{name}: {str(saved)[:60]!r} instead of {current!r}")


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
    fits_parameter = example.shape == _small_shape(parameter)
    shape = parameter.shape if fits_parameter else example.shape
    if fits_parameter and not parameter.numel():  # its rows belong to other processes
        shape = saved.shape[:1] + parameter.shape[1:]
    if saved.shape != shape and (fits_parameter or not example.ndim):  # other shapes may depend on the parameter's
        return f"is {list(saved.shape)} instead of {list(shape)}"
    return f"is {saved.dtype} instead of {example.dtype}" if saved.dtype != example.dtype else ""
