"""The cost of a layer, counted and measured: operations, memory, time, sequential operations, path lengths."""

from __future__ import annotations

__all__ = ["Cost", "cost", "exponent", "layers_between_ends", "path_length", "products_in_sequence"]

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from layer_kinds import Layer

PRODUCTS = ("MmBackward", "BmmBackward", "AddmmBackward", "ConvolutionBackward", "MvBackward", "LinearBackward")
"""Nodes of autograd's graph that are matrix products"""


@dataclass(frozen=True)
class Cost:
    """The cost of one forward pass over one sentence."""

    operations: int
    """Multiplications and additions of all products"""
    bytes: int
    """Kept for the backward pass, without the layer's own weights and input"""
    seconds: float
    """CPU time: the minimum of several"""


def cost(layer: Layer, n: int, repeats: int = 5) -> Cost:
    """The cost of a sentence of n positions."""
    x = torch.randn(n, layer.d)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x)
    return Cost(counter.get_total_flops(), _saved(layer, x), min(_seconds(layer, x) for _ in range(repeats)))


def _saved(layer: Layer, x: Tensor) -> int:
    storages: dict[int, int] = {}
    own = {p.untyped_storage().data_ptr() for p in layer.parameters()} | {x.untyped_storage().data_ptr()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        kept = layer(x.requires_grad_())  # kept alive until all is counted, so that no address is reused
    total = sum(storages.values())
    del kept
    return total


def _seconds(layer: Layer, x: Tensor) -> float:
    """CPU seconds of one call, averaged over at least 20 ms of calls because of the clock's resolution."""
    with torch.no_grad():
        n_calls, began = 0, time.process_time()
        while time.process_time() - began < 0.02:
            layer(x)
            n_calls += 1
        return (time.process_time() - began) / n_calls


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent a in value ~ size ** a, by least squares on the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def products_in_sequence(layer: Layer, n: int) -> int:
    """Matrix products on the longest chain of autograd's graph: those that no number of cores can parallelise."""
    last = layer.positions(torch.randn(n, layer.d, requires_grad=True))[-1]
    return _chain(last.grad_fn)


def layers_between_ends(layers: Callable[[int], Layer], n: int) -> int:
    """Layers of a stack (numbered from 0) until the last position depends on the first, by the gradient.

    Raises ValueError if n layers do not suffice.
    """
    for depth in range(1, n + 1):
        x = torch.randn(n, layers(0).d, requires_grad=True)
        hidden = x
        for number in range(depth):
            hidden = layers(number)(hidden)
        (gradient,) = torch.autograd.grad(hidden[-1].square().sum(), x)
        if gradient[0].abs().max() > 0:
            return depth
    raise ValueError(f"{n} layers do not connect the ends of {n} positions")


def path_length(layers: Callable[[int], Layer], n: int) -> int:
    """Steps of a signal from the first position to the last: layers, or the steps within a recurrent layer."""
    depth = layers_between_ends(layers, n)
    first = torch.randn(1, layers(0).d, requires_grad=True)
    rest = torch.randn(n - 1, layers(0).d)
    if depth > 1:
        return depth
    # one layer: products between the ends, minus those of a one-position sentence, which are only input and output
    last = layers(0).positions(torch.cat([first, rest]))[-1]
    alone = layers(0).positions(first.detach().requires_grad_())[-1]
    return 1 + _chain(last.grad_fn) - _chain(alone.grad_fn)


def _chain(node: Any) -> int:
    """Products on the longest chain that ends here; iterative, since chains are as long as sentences."""
    known: dict[Any, int] = {}
    stack = [node]
    while stack:
        current = stack[-1]
        before = [after for after, _ in current.next_functions if after is not None]
        missing = [after for after in before if after not in known]
        if missing and current not in known:
            stack += missing
            continue
        stack.pop()
        longest = max((known[after] for after in before), default=0)
        known[current] = longest + type(current).__name__.startswith(PRODUCTS)
    return known[node]
