"""Linear maps and attention of long sentences in C, as compiled for every set of instructions that a wheel holds and
this processor has, and for emulated AMX tiles, which few processors have.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from harness.folders import HARNESS
from s2s.backend.operators.attention import math_attention
from s2s_cpu import compiled as compiled_module
from s2s_cpu import library
from s2s_cpu.bf16_linear import apply_weight, input_gradient, weight_gradient
from s2s_cpu.compiled import LEVELS, SOURCES, Level, compile_library, instructions
from s2s_cpu.library import SIGNATURES, NativeLibrary, constant
from s2s_cpu.prepacked import Bf16Linear, Fp32Linear, HugePageArena, Int8Linear, PrepackedLinear
from s2s_cpu.quantization import dequantize_rows, quantize_rows, quantize_weight
from s2s_cpu.tiled_attention import tiled_attention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.backend.operators import Kernel

ALL = list(LEVELS.get(platform.machine(), ()))
if len(ALL) > 1:
    EMULATED = ALL[-2]._replace(name="emulated tiles", needs="")
    ALL.insert(-1, EMULATED._replace(flags=(*EMULATED.flags, "-include", str(HARNESS / "emulated_tiles.h"))))
NEEDED = ["linear.c", "unit_linear.c", "tile_sums.c", "rows.c", "bf16_linear.c", "bf16_blocks.c"]
NEEDED += ["block_products.c", "tiled_attention.c", "tiled_attention_backward.c"]
USED = ["s2s_linear", "s2s_panel_width", "s2s_has_int8", "s2s_quantize_rows", "s2s_huge_pages"]
USED += ["s2s_dequantize_rows", "s2s_rounds_rows_to_bf16", "s2s_may_use_tiles"]
USED += ["s2s_tiled_attention", "s2s_tiled_attention_backward"]
USED += ["s2s_has_bf16_linear", "s2s_bf16_linear", "s2s_bf16_linear_dx", "s2s_bf16_linear_dw"]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module", params=ALL, ids=lambda level: level.name)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Level]:
    """The functions of a level take the place of those of this processor."""
    at = ALL.index(request.param)
    if missing := {name for level in ALL[: at + 1] for name in level.needs.split()} - instructions():
        pytest.skip(f"this processor has no {', '.join(sorted(missing))}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_module, "SOURCES", [source for source in SOURCES if source.name in NEEDED])
        path = compile_library(tmp_path_factory.mktemp("level") / "functions.so", (*request.param.flags, "-O1"))
        functions = ctypes.CDLL(str(path))
        for name in USED:
            function = getattr(functions, name)
            function.argtypes, function.restype = SIGNATURES[name], ctypes.c_int64
        patch.setattr(library, "native_library", lambda: NativeLibrary(functions, "a level"))
        yield request.param


def exact(kind: type[PrepackedLinear], x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """In float64, of what the operands are rounded to."""
    if kind is Int8Linear:
        (rows, scale), (quantized, by, _) = quantize_rows(x, 128), quantize_weight(weight)
        products = (rows.double() - 128) @ (quantized.double() * by.double()[:, None]).T
        return dequantize_rows(products, scale.double(), bias.double())
    if kind is Bf16Linear:
        weight = weight.bfloat16()
        x = x.bfloat16() if constant("s2s_rounds_rows_to_bf16") else x
    return F.linear(x.double(), weight.double(), bias.double())


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("kind", [Fp32Linear, Bf16Linear, Int8Linear])
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(1, 1), (47, 70), (64, 64), (300, 129)])
def test_products_are_those_of_float64_in_any_batch(kind: Any, n_inputs: int, n_outputs: int) -> None:
    if kind is Int8Linear and not constant("s2s_has_int8"):
        pytest.skip("these instructions have no dot product of 8-bit integers")
    torch.manual_seed(n_inputs)
    weight, bias, x = torch.randn(n_outputs, n_inputs), torch.randn(n_outputs), torch.randn(50, n_inputs)
    linear = kind(weight, bias, HugePageArena())
    found, terms = linear(x), x.abs() @ weight.abs().T + bias.abs() + 1
    assert ((found - exact(kind, x, weight, bias)).abs() < 2**-20 * n_inputs**0.5 * terms).all()
    for n in (0, 1, 6, 7, 15, 16, 17, 33, 48):
        assert torch.equal(linear(x[:n]), found[:n])
        assert torch.equal(linear(x[50 - n :]), found[50 - n :])


@needs_compiler
def test_tiles_are_used_where_they_are_emulated(compiled: Level) -> None:
    assert constant("s2s_may_use_tiles") or compiled.name != "emulated tiles"
    assert not constant("s2s_may_use_tiles") or compiled.name in ("emulated tiles", "x86-64-v4-amx")


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("n_rows", "n_inputs", "n_outputs"), [(1, 32, 1), (33, 64, 40), (70, 96, 64), (200, 32, 129)])
def test_training_multiplies_as_float64(dtype: torch.dtype, n_rows: int, n_inputs: int, n_outputs: int) -> None:
    if not constant("s2s_has_bf16_linear"):
        pytest.skip("these instructions have no products of bf16")
    torch.manual_seed(n_rows)
    x, weight, bias = (
        torch.randn(n_rows, n_inputs, dtype=dtype),
        torch.randn(n_outputs, n_inputs),
        torch.randn(n_outputs),
    )
    d_out, d_bias = torch.randn(n_rows, n_outputs).bfloat16(), torch.empty(n_outputs)
    rows, rounded, gradient = x.bfloat16().double(), weight.bfloat16().double(), d_out.double()
    near(apply_weight(x, weight, bias), rows @ rounded.T + bias.double(), n_inputs)
    near(input_gradient(d_out, weight, dtype), gradient @ rounded, n_outputs)
    near(weight_gradient(d_out, x, d_bias), gradient.T @ rows, n_rows)
    near(d_bias, gradient.sum(0), n_rows)


@needs_compiler
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_attention_of_long_sentences_multiplies_as_float64(dtype: torch.dtype) -> None:
    """A causal sentence with more queries and keys than a tile has."""
    torch.manual_seed(1)
    inputs = [torch.randn(1, 2, 270, d).to(dtype).requires_grad_() for d in (40, 40, 24)]

    def results(attention: Kernel, inputs: list[Tensor]) -> list[Tensor]:
        out = attention(*inputs, None, True, 0.0)
        return [out.detach(), *torch.autograd.grad(out.square().sum(), inputs)]

    exact = results(math_attention, [x.detach().double().requires_grad_() for x in inputs])
    for one, truth in zip(results(tiled_attention, inputs), exact, strict=True):
        error = float((one.double() - truth).norm() / truth.norm())
        assert error < (1e-2 if dtype == torch.bfloat16 else 1e-5)


def near(found: Tensor, exact: Tensor, n: int) -> None:
    """Of sums of n products, rounded to the type of `found`."""
    last = 2.0**-8 if found.dtype is torch.bfloat16 else 0.0
    assert ((found.double() - exact).abs() <= last * exact.abs() + 2**-20 * n).all()


@needs_compiler
@pytest.mark.usefixtures("compiled")
def test_sums_of_the_largest_integers_do_not_overflow() -> None:
    """Of 127 * 127 and -127 * 127, where sums of two in 16 bits would."""
    if not constant("s2s_has_int8"):
        pytest.skip("these instructions have no dot product of 8-bit integers")
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]).repeat(1, 300)
    found = Int8Linear(signs, torch.zeros(3), HugePageArena())(signs)
    assert torch.allclose(found, signs @ signs.T, rtol=1e-6)


@needs_compiler
@pytest.mark.parametrize("level", ALL, ids=lambda level: level.name)
def test_every_level_compiles(level: Level) -> None:
    """On any processor, or a wheel would hold no functions at all."""
    files = [str(source) for source in SOURCES if source.name in NEEDED]
    command = ["cc", *level.flags, "-fsyntax-only", "-Wall", "-Werror", "-Wno-psabi", *files]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not checked.returncode, checked.stderr
