"""Linear maps whose weights are laid out once for decoding on a CPU, for functions in C or through oneDNN.

On some processors torch multiplies fp32 matrices by a library that is not at its best there, and oneDNN, which comes
with torch, is 2 to 4 times as fast; the functions of `s2s.backend.kernels` are faster still for few rows, and a model
may have a whole step made of them. So it is measured, once, with a layer of the model itself. A row's result has the
same bits whatever the other rows are, and however many.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = ["Int8", "LinearMap", "Matmul", "OneDNN", "pack", "product_of", "steady"]

import functools
import time
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend import kernels
from s2s.backend.kernels.linear import ZERO, Bytes, Floats, Room, has_int8_linear, has_linear, in_bytes
from s2s.errors import ConfigError

LinearMap = Callable[[Tensor], Tensor]
"""[..., D] -> [..., O]"""


@runtime_checkable
class Multiplies(Protocol):
    """A module that multiplies by a weight, but not as nn.Linear does."""

    product: LinearMap | None
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
        whole, self.scale = in_bytes(weight.detach())
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


def quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of fp32 as unsigned 8-bit numbers around `ZERO`, and what each is to be multiplied by: [R, I], [R]

    Signed ones fall into a kernel of oneDNN's that took a thousand times as long.
    """
    if kernels.serves(x):
        return kernels.quantized(x, ZERO)
    scale = x.abs().amax(1).clamp(min=1e-12) / 127
    return (x / scale[:, None]).round().add(ZERO).to(torch.uint8), scale


def rescaled(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """x [R, O] times scale [R] plus bias [O], in place."""
    if kernels.serves(x):
        return kernels.rescaled(x, scale, bias)
    return x.mul_(scale[:, None]).add_(bias)


Matmul = Literal["auto", "torch", "onednn", "native"]


def pack(model: nn.Module, matmul: Matmul, quantization: Literal["none", "int8"]) -> str:
    """Lay out the weights of all linear maps for decoding, for good: the model cannot be trained or saved any more.

    These are those of nn.Linear itself and of what `Multiplies`. Says what was done.
    """
    if quantization == "int8":
        _replace(model, _int8())
        return "linear maps in 8-bit integers, each row by itself"
    kinds = _kinds()
    name, why = _fastest(model, kinds) if matmul == "auto" else (matmul, f"matmul={matmul}")
    if name == "torch":
        return f"linear maps by torch ({why})"
    if name not in kinds:
        raise ConfigError(f"{why}: {_missing(name)}; leave the option out")
    _replace(model, kinds[name])
    return f"linear maps {NAMES[name]} ({why})"


def product_of(module: nn.Module) -> object:
    """What a linear map multiplies by now."""
    return module.product if isinstance(module, Multiplies) else module.forward


NAMES = {"onednn": "by oneDNN", "native": "in C"}

Kind = Callable[[Tensor, Tensor | None], LinearMap]


def _kinds() -> dict[Matmul, Kind]:
    """What else than torch's own there is here, the preferred first."""
    kinds: dict[Matmul, Kind] = {}
    if has_linear():
        kinds["native"] = functools.partial(Floats, room=Room())
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        kinds["onednn"] = OneDNN
    return kinds


def _int8() -> Kind:
    if has_int8_linear():
        return functools.partial(Bytes, room=Room())
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise ConfigError(f"quantization=int8: {_missing('onednn')}; leave the option out")
    return Int8


def _missing(name: str) -> str:
    if name == "onednn":
        return f"this build of torch {torch.__version__} has no oneDNN"
    return f"there are functions in C for one thread (threads=1) and with a C compiler; here: {kernels.description()}"


def _replace(model: nn.Module, kind: Kind) -> None:
    for module in model.modules():
        if isinstance(module, Multiplies):
            module.product = kind(*module.weight_and_bias())
        elif type(module) is nn.Linear:
            setattr(module, "forward", kind(module.weight, module.bias))  # noqa: B010  mypy refuses a plain assignment
        if isinstance(module, nn.Linear):
            module.weight = None  # type: ignore[assignment]  # the product has its own


@torch.no_grad()
def steady(model: nn.Module) -> Matmul:
    """Who is to multiply where no stopwatch may decide, since another process must find the same: the preferred one."""
    largest = _largest(model)
    return next(iter(_right(largest, _kinds())), "torch") if largest else "torch"


def _largest(model: nn.Module) -> nn.Linear | None:
    maps = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return max(maps, key=lambda module: module.weight.numel(), default=None)


def _right(of: nn.Linear, kinds: dict[Matmul, Kind]) -> dict[Matmul, LinearMap]:
    """What each kind makes of a map, without those that are not right here."""
    x = _rows(of, 32)
    bias = None if of.bias is None else of.bias.double()
    exact = F.linear(x.double(), of.weight.double(), bias)
    products = {name: kind(of.weight.detach(), of.bias) for name, kind in kinds.items()}
    tolerance = 1e-5 * exact.abs().max().clamp(min=1e-12)
    return {name: product for name, product in products.items() if (product(x) - exact).abs().max() <= tolerance}


def _rows(of: nn.Linear, n: int) -> Tensor:
    return torch.randn(n, of.weight.size(1), generator=torch.Generator().manual_seed(n))


@torch.no_grad()
def _fastest(model: nn.Module, kinds: dict[Matmul, Kind]) -> tuple[Matmul, str]:
    """Who is to multiply, and why: measured with 4 and 32 rows of the model's largest linear map."""
    largest = _largest(model)
    if largest is None or not kinds:
        return "torch", "there is nothing else" if largest is not None else "there are none"
    rows, weight, bias = [_rows(largest, n) for n in (4, 32)], largest.weight, largest.bias
    times: dict[Matmul, float] = {"torch": _seconds(lambda: [F.linear(x, weight, bias) for x in rows])}
    for name, product in _right(largest, kinds).items():
        times[name] = _seconds(lambda product=product: [product(x) for x in rows])  # type: ignore[misc]
    best: Matmul = next((name for name in kinds if times.get(name, torch.inf) < 1.1 * min(times.values())), "torch")
    others = ", ".join(f"{name} took {times[name] / times[best]:.1f} times as long" for name in times if name != best)
    return best, others or "no other is right here"


def _seconds(function: Callable[[], object], n: int = 7) -> float:
    """The shortest of several runs, of this process alone."""
    times = []
    for _ in range(n):
        begun = time.process_time()
        for _ in range(5):
            function()
        times.append(time.process_time() - begun)
    return max(min(times), 1e-9)
