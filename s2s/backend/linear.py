"""Linear maps whose weights are prepacked once for decoding on a CPU, for functions in C or for oneDNN.

On some processors torch multiplies fp32 matrices by a library that is slow there, and oneDNN, which comes with torch,
is 2 to 4 times as fast; the functions of `s2s.backend.kernels` are faster still for few rows, and a model may have its
whole decoding step made of them. So it is measured, once, with a layer of the model itself. A row's result has the same
bits whatever the other rows are, and however many.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = [
    "HasPrepacked",
    "LinearBackend",
    "LinearMap",
    "OneDNNInt8Linear",
    "OneDNNLinear",
    "deterministic_backend",
    "int8_is_exact",
    "linear_function",
    "prepack",
]

import functools
import time
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.backend import kernels
from s2s.backend.kernels.linear import (
    ZERO_POINT,
    Fp32Linear,
    HugePageArena,
    Int8Linear,
    has_int8_linear,
    has_linear,
    quantize_weight,
)
from s2s.errors import ConfigError

LinearMap = Callable[[Tensor], Tensor]
"""[..., I] -> [..., O]"""
Prepack = Callable[[Tensor, Tensor | None], LinearMap]
"""Weight [O, I] and bias [O] -> x W^T + b"""
LinearBackend = Literal["auto", "exact", "torch", "onednn", "native"]


@runtime_checkable
class HasPrepacked(Protocol):
    """A module that multiplies by a weight in its own way, and by `prepacked` instead where that is set."""

    prepacked: LinearMap | None

    def weight_and_bias(self) -> tuple[Tensor, Tensor | None]:
        """[O, I], [O]"""
        ...


class OneDNNLinear:
    """x W^T + b in fp32, with W in oneDNN's own layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())
        self.bias = None if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        return torch.ops.mkldnn._linear_pointwise.default(x, self.weight, self.bias, "none", [], "")


class OneDNNInt8Linear:
    """x W^T + b in 8-bit integers: a scale for each output of W, and for each row of x by itself.

    One scale for all rows of x, as in torch's own dynamic quantization, would make an output depend on its batch. Rows
    are unsigned: signed ones reach a kernel of oneDNN's that took a thousand times as long.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        quantized, self.scale = quantize_weight(weight.detach())
        self.weight = torch.ops.onednn.qlinear_prepack(quantized, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = torch.zeros(len(weight)) if bias is None else bias.detach()

    def __call__(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]"""
        rows, scale = kernels.quantize_rows(x.flatten(0, -2), ZERO_POINT)
        product = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, ZERO_POINT, self.weight, self.scale, self.zeros, None, 1.0, 0, torch.float, "none", [], ""
        )
        return kernels.dequantize_rows(product, scale, self.bias).unflatten(0, x.shape[:-1])


def prepack(model: nn.Module, backend: LinearBackend, quantization: Literal["none", "int8"]) -> str:
    """Prepack the weights of a model's linear maps for decoding; it can then be neither trained nor saved.

    These are modules of `s2s.nn.linear`, whose own weights are freed, and modules that are nn.Linear itself, which keep
    them. All others are left alone: a subclass of nn.Linear may do something else. Returns what was done, in words.
    """
    if quantization == "int8":
        _replace(model, _int8())
        return "linear maps in 8-bit integers, each row by itself"
    backends = _available()
    backend = deterministic_backend(model) if backend == "exact" else backend
    name, reason = _fastest(model, backends) if backend == "auto" else (backend, f"matmul={backend}")
    if name == "torch":
        return f"linear maps by torch ({reason})"
    if name not in backends:
        raise ConfigError(f"{reason}: {_missing(name)}; leave the option out")
    _replace(model, backends[name])
    return f"linear maps {NAMES[name]} ({reason})"


def linear_function(module: nn.Module) -> object:
    """What computes a linear map now."""
    return module.prepacked if isinstance(module, HasPrepacked) else module.forward


NAMES = {"onednn": "by oneDNN", "native": "in C"}


def _available() -> dict[LinearBackend, Prepack]:
    """The alternatives to torch's own linear maps, the preferred first."""
    backends: dict[LinearBackend, Prepack] = {}
    if has_linear():
        backends["native"] = functools.partial(Fp32Linear, arena=HugePageArena())
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        backends["onednn"] = OneDNNLinear
    return backends


def _int8() -> Prepack:
    if has_int8_linear():
        return functools.partial(Int8Linear, arena=HugePageArena())
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise ConfigError(f"quantization=int8: {_missing('onednn')}; leave the option out")
    if not int8_is_exact():
        raise ConfigError(
            "quantization=int8: sums of 8-bit products overflow on this processor, which has no VNNI; "
            "leave the option out"
        )
    return OneDNNInt8Linear


@functools.cache
def int8_is_exact() -> bool:
    """Whether oneDNN's sums of 8-bit products are right: on processors without VNNI, pairs are added in 16 bits."""
    x, weight = torch.full((1, 64), 3.0), torch.full((16, 64), 2.0)
    return bool((OneDNNInt8Linear(weight, None)(x) - x @ weight.T).abs().max() < 1)


def _missing(name: str) -> str:
    if name == "onednn":
        return f"this build of torch {torch.__version__} has no oneDNN"
    return f"there are functions in C for one thread (threads=1) and with a C compiler; here: {kernels.description()}"


def _replace(model: nn.Module, prepack: Prepack) -> None:
    """Let every linear map compute by a prepacked weight; free the weights that nothing else reads."""
    read = {p for module in model.modules() if not _owns_weight(module) for p in module.parameters(recurse=False)}
    for module in [module for module in model.modules() if _is_prepackable(module)]:
        if isinstance(module, HasPrepacked):
            module.prepacked = prepack(*module.weight_and_bias())
        else:
            assert isinstance(module, nn.Linear)
            setattr(module, "forward", prepack(module.weight, module.bias))  # noqa: B010  mypy refuses an assignment
    for module in [module for module in model.modules() if _owns_weight(module)]:
        if module.weight not in read:
            module.weight = None  # type: ignore[assignment]


def _owns_weight(module: nn.Module) -> bool:
    """Whether only the product reads its weight, as that of s2s.nn.linear; around an nn.Linear others may."""
    return isinstance(module, nn.Linear) and isinstance(module, HasPrepacked)


def _is_prepackable(module: nn.Module) -> bool:
    """Whether it computes x W^T + b with a constant W, which weight_norm's hook before `forward` would make anew."""
    return isinstance(module, HasPrepacked) or (type(module) is nn.Linear and not module._forward_pre_hooks)


@torch.no_grad()
def deterministic_backend(model: nn.Module) -> LinearBackend:
    """The preferred backend that is accurate here, without timing: another process must come to the same choice."""
    largest = _largest(model)
    return next(iter(_accurate(largest, _available())), "torch") if largest else "torch"


def _largest(model: nn.Module) -> nn.Linear | None:
    maps = [module for module in model.modules() if isinstance(module, nn.Linear) and _is_prepackable(module)]
    return max(maps, key=lambda module: module.weight.numel(), default=None)


def _accurate(module: nn.Linear, backends: dict[LinearBackend, Prepack]) -> dict[LinearBackend, LinearMap]:
    """What each backend makes of a map, without those that are not accurate here."""
    x = _rows(module, 32)
    bias = None if module.bias is None else module.bias.double()
    exact = F.linear(x.double(), module.weight.double(), bias)
    functions = {name: prepack(module.weight.detach(), module.bias) for name, prepack in backends.items()}
    tolerance = 1e-5 * exact.abs().max().clamp(min=1e-12)
    return {name: linear for name, linear in functions.items() if (linear(x) - exact).abs().max() <= tolerance}


def _rows(module: nn.Linear, n: int) -> Tensor:
    return torch.randn(n, module.weight.size(1), generator=torch.Generator().manual_seed(n))


@torch.no_grad()
def _fastest(model: nn.Module, backends: dict[LinearBackend, Prepack]) -> tuple[LinearBackend, str]:
    """The fastest backend and why: measured with 4 and 32 rows of the model's largest linear map."""
    largest = _largest(model)
    if largest is None or not backends:
        return "torch", "there is no alternative" if largest is not None else "the model has none"
    rows, weight, bias = [_rows(largest, n) for n in (4, 32)], largest.weight, largest.bias
    times: dict[LinearBackend, float] = {"torch": _seconds(lambda: [F.linear(x, weight, bias) for x in rows])}
    for name, linear in _accurate(largest, backends).items():
        times[name] = _seconds(lambda linear=linear: [linear(x) for x in rows])  # type: ignore[misc]
    names = (name for name in backends if times.get(name, torch.inf) < 1.1 * min(times.values()))
    best: LinearBackend = next(names, "torch")
    others = ", ".join(f"{name} took {times[name] / times[best]:.1f} times as long" for name in times if name != best)
    return best, others or "no other is accurate here"


def _seconds(function: Callable[[], object], n: int = 7) -> float:
    """The shortest CPU time of several runs."""
    times = []
    for _ in range(n):
        begun = time.process_time()
        for _ in range(5):
            function()
        times.append(time.process_time() - begun)
    return max(min(times), 1e-9)
