"""When a linear map is no more than the product with its weight, which a caller may then compute itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional as F

from s2s.nn import Linear

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class Doubled(Linear):
    """A linear map of a plugin."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def with_forward(layer: Linear) -> None:
    vars(layer)["forward"] = lambda x: 2 * F.linear(x, layer.weight, layer.bias)


def prepacked(layer: Linear) -> None:
    layer.prepacked = lambda x: 2 * F.linear(x, layer.weight, layer.bias)


def doubled(gradients: Any) -> tuple[Tensor, ...]:
    return tuple(2 * gradient for gradient in gradients)


CHANGES: dict[str, Callable[[Linear], object]] = {
    "forward pre-hook": lambda layer: layer.register_forward_pre_hook(lambda _, given: (2 * given[0],)),
    "forward hook": lambda layer: layer.register_forward_hook(lambda *given: 2 * given[2]),
    "backward pre-hook": lambda layer: layer.register_full_backward_pre_hook(lambda _, out: doubled(out)),
    "backward hook": lambda layer: layer.register_full_backward_hook(lambda _, given, out: doubled(given)),
    "forward": with_forward,
    "prepacked": prepacked,
    "subclass": lambda layer: setattr(layer, "__class__", Doubled),
}


def computed(layer: Linear, x: Tensor) -> list[Tensor]:
    """The output, and the gradient of the input."""
    x = x.clone().requires_grad_()
    out = layer(x)
    return [out.detach(), *torch.autograd.grad(out.sum(), x)]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_map_that_computes_anything_else_is_not_plain(change: Callable[[Linear], object]) -> None:
    layer, x = Linear(3, 2), torch.ones(1, 3)
    assert layer.is_plain
    out, gradient = computed(layer, x)
    assert torch.equal(out, F.linear(x, layer.weight, layer.bias))
    change(layer)
    changed_out, changed_gradient = computed(layer, x)
    assert not (torch.equal(changed_out, out) and torch.equal(changed_gradient, gradient))
    assert not layer.is_plain
