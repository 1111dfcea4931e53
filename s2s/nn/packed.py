"""Linear maps whose weights are laid out once for decoding on a CPU, through oneDNN.

On some processors torch multiplies fp32 matrices by a library that is not at its best there, and oneDNN, which comes
with torch, is 2 to 4 times as fast; on others there is nothing to gain. So it is measured, once, with a layer of the
model itself. A row's result has the same bits whatever the other rows are, and however many.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = ["Int8", "OneDNN", "pack"]

import time
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import kernels
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.nn.attention import Product


@runtime_checkable
class Multiplies(Protocol):
    """A module that multiplies by a weight, but not as nn.Linear does."""

    product: Product | None
    """What it multiplies by instead of by itself"""

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, I], [O]"""
        ...


class OneDNN:
    """x W^T + b in fp32, with W in oneDNN's own layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
        self.bias = None if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        return torch.ops.mkldnn._linear_pointwise.default(x, self.weight, self.bias, "none", [], "")


class Int8:
    """x W^T + b in 8-bit integers: a scale for each output of W, and for each row of x by itself.

    One scale for all rows of x, as in torch's own dynamic quantisation, would make an output depend on its batch.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        self.scale = weight.abs().amax(1).clamp(min=1e-12) / 127  # [O]
        whole = (weight / self.scale[:, None]).round().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(whole, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = torch.zeros(len(weight)) if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        rows, scale = quantized(x.flatten(0, -2))
        product = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, ZERO, self.weight, self.scale, self.zeros, None, 1.0, 0, torch.float, "none", [], ""
        )
        return rescaled(product, scale, self.bias).unflatten(0, x.shape[:-1])


ZERO = 128
"""What stands for 0 in unsigned 8-bit numbers; signed ones fall into a kernel that took a thousand times as long."""


def quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of fp32 as unsigned 8-bit numbers around `ZERO`, and what each is to be multiplied by: [R, I], [R]"""
    if kernels.serves(x):
        return kernels.quantized(x, ZERO)
    scale = x.abs().amax(1).clamp(min=1e-12) / 127
    return (x / scale[:, None]).round().add(ZERO).to(torch.uint8), scale


def rescaled(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """x [R, O] times scale [R] plus bias [O], in place."""
    if kernels.serves(x):
        return kernels.rescaled(x, scale, bias)
    return x.mul_(scale[:, None]).add_(bias)


def pack(model: nn.Module, matmul: Literal["auto", "torch", "onednn"], quantization: Literal["none", "int8"]) -> str:
    """Lay out the weights of all linear maps for decoding, for good: the model cannot be trained or saved any more.

    These are those of nn.Linear itself and of what `Multiplies`. Says what was done.
    """
    if quantization == "int8":
        _refuse_without("qlinear_pointwise", "onednn", "quantization=int8")
        _replace(model, Int8)
        return "linear maps in 8-bit integers, each row by itself"
    if matmul == "auto":
        worth, why = _worth_packing(model)
        if not worth:
            return f"linear maps by torch ({why})"
    elif matmul == "torch":
        return "linear maps by torch (matmul=torch)"
    else:
        why = "matmul=onednn"
        _refuse_without("_linear_pointwise", "mkldnn", why)
    _replace(model, OneDNN)
    return f"linear maps by oneDNN ({why})"


def _refuse_without(operator: str, namespace: str, option: str) -> None:
    if not hasattr(getattr(torch.ops, namespace), operator):
        raise ConfigError(f"{option}: this build of torch {torch.__version__} has no oneDNN; leave the option out")


def _replace(model: nn.Module, kind: Callable[[Tensor, Tensor | None], Product]) -> None:
    for module in model.modules():
        if isinstance(module, Multiplies):
            module.product = kind(*module.weight_and_bias())
        elif type(module) is nn.Linear:
            setattr(module, "forward", kind(module.weight, module.bias))  # noqa: B010  mypy refuses a plain assignment
        if isinstance(module, nn.Linear):
            module.weight = None  # type: ignore[assignment]  # the product has its own


def _worth_packing(model: nn.Module) -> tuple[bool, str]:
    """Whether oneDNN is faster for the model's largest linear map, and right."""
    maps = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not maps or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False, "there are none" if not maps else "torch has no oneDNN"
    largest = max(maps, key=lambda module: module.weight.numel())
    weight, bias = largest.weight.detach(), largest.bias
    x = torch.randn(32, weight.size(1), generator=torch.Generator().manual_seed(0))
    packed = OneDNN(weight, bias)
    expected = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    error = (packed(x) - expected).abs().max() / expected.abs().max().clamp(min=1e-12)
    if error > 1e-5:
        return False, f"oneDNN's have a relative error of {float(error):.1g} here"
    faster = _seconds(lambda: F.linear(x, weight, bias)) / _seconds(lambda: packed(x))
    return (
        faster > 1.1,
        f"oneDNN took 1/{faster:.1f} of the time" if faster > 1 else f"oneDNN took {1 / faster:.1f} times as long",
    )


def _seconds(function: Callable[[], object], n: int = 7) -> float:
    """The shortest of several runs, of this process alone."""
    times = []
    for _ in range(n):
        begun = time.process_time()
        for _ in range(5):
            function()
        times.append(time.process_time() - begun)
    return max(min(times), 1e-9)
