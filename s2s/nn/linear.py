"""Linear maps that free their weight when it is prepacked for decoding."""

from __future__ import annotations

__all__ = ["Linear", "Projections", "must_be_called"]

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from s2s.backend.linear import apply_linear

if TYPE_CHECKING:
    from s2s.backend.linear import LinearMap


class Linear(nn.Linear):
    """nn.Linear whose weight is used by its `forward` alone, so that prepacking may free it.

    An nn.Linear is prepacked as well, but keeps its weight, since a module around it may read that directly.
    """

    prepacked: LinearMap | None = None
    """Computes the product instead, from a prepacked weight; see `s2s.backend.linear`"""

    @property
    def is_plain(self) -> bool:
        """Whether calling it is one product of its own weight, and nothing that a plugin has added."""
        return type(self) is Linear and is_plain(self)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, D], [O]"""
        return self.weight, self.bias

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., O]"""
        return self.prepacked(x) if self.prepacked else apply_linear(x, self.weight, self.bias)


class Projections(nn.Linear):
    """Several linear maps of one input, computed as one product."""

    prepacked: LinearMap | None = None
    """As in `Linear`"""

    def __init__(self, d_in: int, parts: tuple[int, ...], *, bias: bool = True) -> None:
        super().__init__(d_in, sum(parts), bias)
        self.parts = parts

    @property
    def is_plain(self) -> bool:
        """As in `Linear`"""
        return type(self) is Projections and is_plain(self)

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, D], [O]"""
        return self.weight, self.bias

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]  # one result for each part
        out = self.prepacked(x) if self.prepacked else apply_linear(x, self.weight, self.bias)
        return out.split(self.parts, dim=-1)


def is_plain(module: Linear | Projections) -> bool:
    """Whether calling a linear map multiplies by its weight, not in another way that a plugin has added."""
    return module.prepacked is None and not must_be_called(module)


def must_be_called(module: nn.Module) -> bool:
    """Whether calling a module does more than its class says: it or all modules have hooks, or it a `forward`."""
    hooks = module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks
    return any(hooks) or "forward" in vars(module) or bool(_has_any_global_hook())
