"""Which library computes a model's linear maps in decoding: torch, oneDNN, or the functions in C.

On some processors the library that torch uses for fp32 products is slow, and oneDNN, which comes with torch, is 2 to 4
times as fast; the functions in C are faster still for few rows, and a model's whole decoding step may consist of them.
The choice is therefore measured, once, with a layer of the model itself. A row's result has the same bits whatever the
other rows are, and however many.

Shapes: R rows, I inputs, O outputs.
"""

from __future__ import annotations

__all__ = ["deterministic_backend", "has_int8", "prepack"]

import functools
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import ConfigError
from s2s.backend import linear
from s2s_cpu.library import native_library
from s2s_cpu.onednn import OneDNNInt8Linear, OneDNNLinear, int8_is_exact
from s2s_cpu.prepacked import (
    Bf16Linear,
    Fp32Linear,
    HugePageArena,
    Int8Linear,
    has_int8_linear,
    has_linear,
    rounds_rows_to_bf16,
)
from s2s_cpu.replacing import is_prepackable, replace_linear_maps

Prepack = Callable[[Tensor, Tensor | None], linear.LinearMap]
"""Weight [O, I] and bias [O] -> x W^T + b"""
Int8Prepack = Callable[[Tensor, Tensor | None, linear.Int8Multipliers | None], linear.LinearMap]
NAMES = {"onednn": "by oneDNN", "native": "in C"}


def prepack(
    model: nn.Module,
    backend: linear.LinearBackend,
    quantization: linear.Quantization,
    recorded: Mapping[Tensor, linear.Int8Multipliers] = linear.NO_MULTIPLIERS,
) -> str:
    """See `s2s.backend.prepack`."""
    if quantization != "none" and backend in ("torch", "onednn"):
        raise ConfigError(f"quantization={quantization} has linear maps of its own; leave matmul={backend} out")
    if quantization == "int8":
        replace_linear_maps(model, functools.partial(_int8_map, _int8(), recorded))
        rows = "by the scales of the model's file" if recorded else "each row by itself"
        return f"linear maps in 8-bit integers, {rows}"
    if quantization == "bf16":
        replace_linear_maps(model, _bf16())
        return f"linear maps with weights{' and inputs' if rounds_rows_to_bf16() else ''} in bf16, sums in fp32"
    backends = _available()
    backend = deterministic_backend(model) if backend == "exact" else backend
    name, reason = _fastest(model, backends) if backend == "auto" else (backend, f"matmul={backend}")
    if name == "torch":
        return f"linear maps by torch ({reason})"
    if name not in backends:
        raise ConfigError(f"{reason}: {_missing(name)}; leave the option out")
    replace_linear_maps(model, backends[name])
    return f"linear maps {NAMES[name]} ({reason})"


def _available() -> dict[linear.LinearBackend, Prepack]:
    """The alternatives to torch's own linear maps, the preferred first."""
    backends: dict[linear.LinearBackend, Prepack] = {}
    if has_linear():
        backends["native"] = functools.partial(Fp32Linear, arena=HugePageArena())
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        backends["onednn"] = OneDNNLinear
    return backends


def _bf16() -> Prepack:
    if not has_linear():
        raise ConfigError(f"quantization=bf16: {_missing('native')}; leave the option out")
    return functools.partial(Bf16Linear, arena=HugePageArena())


def has_int8() -> bool:
    """See `s2s.backend.linear.has_int8`."""
    return has_int8_linear() or (hasattr(torch.ops.onednn, "qlinear_pointwise") and int8_is_exact())


def _int8_map(
    make: Int8Prepack, recorded: Mapping[Tensor, linear.Int8Multipliers], weight: Tensor, bias: Tensor | None
) -> linear.LinearMap:
    """A map, or several if parts of its outputs have different multipliers of inputs."""
    multipliers = recorded.get(weight)
    if multipliers is None:
        return make(weight, bias, None)
    sizes = multipliers.inputs.unique_consecutive(return_counts=True)[1].tolist()
    if len(sizes) == 1:
        return make(weight, bias, multipliers)
    biases = [None] * len(sizes) if bias is None else bias.split(sizes)
    each = zip(*(x.split(sizes) for x in multipliers), strict=True)
    recorded_parts = [linear.Int8Multipliers(*part) for part in each]
    parts = [make(*part) for part in zip(weight.split(sizes), biases, recorded_parts, strict=True)]
    return lambda x: torch.cat([part(x) for part in parts], dim=-1)


def _int8() -> Int8Prepack:
    if has_int8_linear():
        arena = HugePageArena()
        return lambda weight, bias, recorded: Int8Linear(weight, bias, arena, recorded)
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise ConfigError(f"quantization=int8: {_missing('onednn')}; leave the option out")
    if not int8_is_exact():
        raise ConfigError(
            "quantization=int8: oneDNN's sums of 8-bit products overflow on this processor, which has no VNNI, and "
            f"{_missing('native')}; leave the option out"
        )
    return OneDNNInt8Linear


def _missing(name: str) -> str:
    if name == "onednn":
        return f"this build of torch {torch.__version__} has no oneDNN"
    functions, reason = native_library()
    reason = reason if functions is None else f"torch has {torch.get_num_threads()} threads"
    return f"there are functions in C where torch has one thread, and with a C compiler; here: {reason}"


@torch.no_grad()
def deterministic_backend(model: nn.Module) -> linear.LinearBackend:
    """The most preferred backend that is accurate here, without timing: every process must make the same choice."""
    largest = _largest(model)
    return next(iter(_accurate(largest, _available())), "torch") if largest else "torch"


def _largest(model: nn.Module) -> nn.Linear | None:
    maps = [module for module in model.modules() if isinstance(module, nn.Linear) and is_prepackable(module)]
    return max(maps, key=lambda module: module.weight.numel(), default=None)


def _accurate(
    module: nn.Linear, backends: dict[linear.LinearBackend, Prepack]
) -> dict[linear.LinearBackend, linear.LinearMap]:
    """The map as prepacked by each backend that is accurate here."""
    x = _rows(module, 32)
    bias = None if module.bias is None else module.bias.double()
    exact = F.linear(x.double(), module.weight.double(), bias)
    functions = {name: prepack(module.weight.detach(), module.bias) for name, prepack in backends.items()}
    tolerance = 1e-5 * exact.abs().max().clamp(min=1e-12)
    return {name: f for name, f in functions.items() if (f(x) - exact).abs().max() <= tolerance}


def _rows(module: nn.Linear, n: int) -> Tensor:
    return torch.randn(n, module.weight.size(1), generator=torch.Generator().manual_seed(n))


@torch.no_grad()
def _fastest(model: nn.Module, backends: dict[linear.LinearBackend, Prepack]) -> tuple[linear.LinearBackend, str]:
    """The fastest backend and why: measured with 4 and 32 rows of the model's largest linear map."""
    largest = _largest(model)
    if largest is None or not backends:
        return "torch", "there is no alternative" if largest is not None else "the model has none"
    rows, weight, bias = [_rows(largest, n) for n in (4, 32)], largest.weight, largest.bias
    times: dict[linear.LinearBackend, float] = {"torch": _seconds(lambda: [F.linear(x, weight, bias) for x in rows])}
    for name, function in _accurate(largest, backends).items():
        times[name] = _seconds(lambda function=function: [function(x) for x in rows])  # type: ignore[misc]
    names = (name for name in backends if times.get(name, torch.inf) < 1.1 * min(times.values()))
    best: linear.LinearBackend = next(names, "torch")
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
