"""Linear maps with packed weights against torch in float64, and rows that do not depend on each other."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.reference_operators import use_references
from s2s.backend.linear import deterministic_backend, prepack
from s2s.config import GenerateConfig
from s2s.errors import ConfigError
from s2s.generation.acceleration import accelerate
from s2s.nn.linear import Projections
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
from s2s_cpu.replacing import replace_linear_maps
from s2s_testing import VOCAB, assert_state_reorders, assert_step_is_decode
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

WEIGHT = torch.randn(70, 48, generator=torch.Generator().manual_seed(0))
BIAS = torch.randn(70, generator=torch.Generator().manual_seed(1))
ROWS = torch.randn(37, 48, generator=torch.Generator().manual_seed(2)) * torch.logspace(-3, 3, 37)[:, None]

needs_functions = pytest.mark.skipif(not has_linear(), reason=native_library().reason)

KINDS: list[Any] = [
    pytest.param(OneDNNLinear, 1e-6, id="onednn"),
    pytest.param(
        OneDNNInt8Linear,
        2e-2,
        id="int8-onednn",
        marks=pytest.mark.skipif(not int8_is_exact(), reason="no VNNI"),
    ),
    pytest.param(
        lambda weight, bias: Fp32Linear(weight, bias, HugePageArena()),
        1e-6,
        id="native",
        marks=needs_functions,
    ),
    pytest.param(
        lambda weight, bias: Bf16Linear(weight, bias, HugePageArena()),
        2**-7,
        id="bf16-native",
        marks=needs_functions,
    ),
    pytest.param(
        lambda weight, bias: Int8Linear(weight, bias, HugePageArena()),
        2e-2,
        id="int8-native",
        marks=pytest.mark.skipif(not has_int8_linear(), reason="no AVX2"),
    ),
]


@pytest.fixture(params=["native", "torch"])
def kind_of_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        use_references(monkeypatch)


@pytest.mark.usefixtures("kind_of_kernels")
@pytest.mark.parametrize(("kind", "tolerance"), KINDS)
@pytest.mark.parametrize("bias", [None, BIAS], ids=["bare", "bias"])
@pytest.mark.parametrize(("n_inputs", "n_outputs"), [(48, 70), (33, 64), (2, 1)])
def test_a_product_is_that_of_float64(
    kind: Any, tolerance: float, bias: Tensor | None, n_inputs: int, n_outputs: int
) -> None:
    rows, weight = ROWS[:, :n_inputs], WEIGHT[:n_outputs, :n_inputs]
    bias = None if bias is None else bias[:n_outputs]
    exact = nn.functional.linear(rows.double(), weight.double(), None if bias is None else bias.double())
    terms = rows.abs().double() @ weight.abs().double().T + (0.0 if bias is None else bias.abs())
    error = (kind(weight, bias)(rows) - exact).abs().amax(1) / terms.amax(1)
    assert error.max() < tolerance


@pytest.mark.usefixtures("kind_of_kernels")
@pytest.mark.parametrize(("kind", "tolerance"), KINDS)
def test_a_row_has_the_same_bits_in_every_batch(kind: Any, tolerance: float) -> None:
    product = kind(WEIGHT, BIAS)
    together = product(ROWS)
    for n in (1, 2, 5, 16):
        assert torch.equal(product(ROWS[:n]), together[:n])
        assert torch.equal(product(ROWS[-n:].flip(0)), together[-n:].flip(0))


@pytest.mark.parametrize(("kind", "tolerance"), KINDS)
@pytest.mark.parametrize("n_inputs", [600, 512], ids=["short_block", "whole_blocks"])
@pytest.mark.parametrize("n_rows", [0, 13, 16, 33])
def test_products_in_blocks_of_inputs_are_exact_and_have_the_bits_of_one_row(
    kind: Any, tolerance: float, n_inputs: int, n_rows: int
) -> None:
    """Many rows are multiplied block by block, 64 or 256 inputs at a time."""
    generator = torch.Generator().manual_seed(3)
    weight, rows = (torch.randn(n, n_inputs, generator=generator) for n in (70, n_rows))
    found, exact = kind(weight, BIAS)(rows), nn.functional.linear(rows.double(), weight.double(), BIAS.double())
    assert ((found - exact).abs() < tolerance * (rows.abs() @ weight.abs().T + BIAS.abs())).all()
    assert torch.equal(found, torch.cat([found[:0], *(kind(weight, BIAS)(row[None]) for row in rows)]))


@needs_functions
def test_rows_of_another_width_or_type_are_refused() -> None:
    product = Fp32Linear(WEIGHT, BIAS)
    with pytest.raises(ValueError, match=r"expected rows of 48 values in fp32, Got 24 in torch.float32"):
        product(ROWS.unflatten(1, (2, 24)))
    with pytest.raises(ValueError, match=r"expected rows of 48 values in fp32, Got 48 in torch.float64"):
        product(ROWS.double())


@pytest.mark.skipif(not has_int8_linear(), reason="no AVX2")
def test_products_in_8_bits_keep_what_is_no_number() -> None:
    rows = ROWS.clone()
    rows[5, 7] = torch.nan
    found = Int8Linear(WEIGHT, BIAS, HugePageArena())(rows)
    assert found.isnan().all(1).nonzero().flatten().tolist() == [5]


@pytest.mark.usefixtures("kind_of_kernels")
def test_a_row_of_zeros_is_the_bias() -> None:
    assert torch.equal(OneDNNInt8Linear(WEIGHT, BIAS)(torch.zeros(2, 3, 48)), BIAS.expand(2, 3, -1))


def model(**options: Any) -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, d_model=32, d_ff=48, n_heads=2, **options)
    return Transformer(config, VOCAB).eval()


@pytest.mark.skipif(not has_int8_linear() or not int8_is_exact(), reason="no VNNI")
def test_8_bit_products_are_those_of_onednn() -> None:
    """Sums of integers are exact, so that only the last roundings may differ."""
    ours, theirs = Int8Linear(WEIGHT, BIAS, HugePageArena()), OneDNNInt8Linear(WEIGHT, BIAS)
    torch.testing.assert_close(ours(ROWS), theirs(ROWS), rtol=1e-5, atol=1e-5)


@needs_functions
@pytest.mark.parametrize("n_inputs", [48, 47, 1])
@pytest.mark.parametrize("n_outputs", [70, 64, 1])
@pytest.mark.parametrize("n_rows", [37, 16, 5])
def test_products_in_bf16_are_sums_in_fp32_of_what_was_rounded(n_inputs: int, n_outputs: int, n_rows: int) -> None:
    """Of rows in bf16 where the processor multiplies such; elsewhere the sums of floats to the bit."""
    weight, bias, rows = WEIGHT[:n_outputs, :n_inputs], BIAS[:n_outputs], ROWS[:n_rows, :n_inputs]
    found = Bf16Linear(weight, bias, HugePageArena())(rows)
    if not rounds_rows_to_bf16():
        assert torch.equal(found, Fp32Linear(weight.bfloat16().float(), bias, HugePageArena())(rows))
        return
    x, w = rows.bfloat16().double(), weight.bfloat16().double()
    exact, terms = nn.functional.linear(x, w, bias.double()), x.abs() @ w.abs().T + bias.abs()
    assert ((found - exact).abs() <= 2**-22 * terms).all()


@needs_functions
def test_a_model_in_bf16_is_the_model_of_rounded_weights() -> None:
    narrow, rounded = model(), model()
    inputs = " and inputs" if rounds_rows_to_bf16() else ""
    assert prepack(narrow, "auto", "bf16") == f"linear maps with weights{inputs} in bf16, sums in fp32"
    replace_linear_maps(rounded, lambda weight, bias: Fp32Linear(weight.bfloat16().float(), bias, HugePageArena()))
    src, tgt = torch.randint(4, 19, (3, 7)), torch.randint(4, 19, (3, 5))
    with torch.no_grad():
        found, expected = (m.project(m(src, src == 0, tgt)) for m in (narrow, rounded))
    if rounds_rows_to_bf16():
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    else:
        assert torch.equal(found, expected)
    assert_step_is_decode(narrow)


def test_a_weight_is_freed_before_the_next_is_laid_out() -> None:
    """Else a model would be held twice."""
    given: list[weakref.ref[Tensor]] = []

    def lay_out(weight: Tensor, bias: Tensor | None) -> Any:
        assert all(before() is None for before in given)
        given.append(weakref.ref(weight))
        return lambda x: x

    layers = nn.Sequential(*(Projections(4, (2, 3)) for _ in range(3)))
    replace_linear_maps(layers, lay_out)
    assert len(given) == 3


@needs_functions
def test_a_room_keeps_what_it_is_given() -> None:
    room, kept = HugePageArena(chunk=2**12), []
    for n in (3, 1000, 17, 5000):
        kept.append((x := torch.randn(n, 2), room.copy(x.T)))
    assert all(torch.equal(x.T, copy) and copy.is_contiguous() for x, copy in kept)


@pytest.mark.parametrize("sharing", ["shared", "none"])
@pytest.mark.parametrize(("matmul", "how"), [("onednn", "by oneDNN"), ("native", "in C")])
def test_a_packed_model_computes_what_it_did(sharing: Any, matmul: Any, how: str) -> None:
    if matmul == "native" and not has_linear():
        pytest.skip(native_library().reason)
    plain, packed = model(share_embeddings=sharing), model(share_embeddings=sharing)
    assert prepack(packed, matmul, "none") == f"linear maps {how} (matmul={matmul})"
    src, tgt = torch.randint(4, 19, (3, 7)), torch.randint(4, 19, (3, 5))
    with torch.no_grad():
        expected, found = (m.project(m(src, src == 0, tgt)) for m in (plain, packed))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not [m for m in packed.modules() if isinstance(m, nn.Linear) and m.weight is not None]
    assert_step_is_decode(packed)
    assert_state_reorders(packed)


@pytest.mark.skipif(not has_int8_linear() and not int8_is_exact(), reason="no VNNI")
def test_int8_is_independent_of_the_batch_in_a_whole_model() -> None:
    small = model()
    prepack(small, "auto", "int8")
    src = torch.randint(4, 19, (6, 9))
    with torch.no_grad():
        together = small.project(small(src, src == 0, src))
        alone = torch.cat([small.project(small(row, row == 0, row)) for row in src.split(1)])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_auto_measures_and_says_so() -> None:
    how = prepack(model(), "auto", "none")
    assert how.startswith("linear maps ")
    assert " times as long" in how


def test_where_no_stopwatch_may_decide_the_preferred_that_is_right_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s_cpu.linear_backends._seconds", lambda function: pytest.fail("a stopwatch"))
    assert deterministic_backend(model()) == ("native" if has_linear() else "onednn")
    wrong = lambda weight, bias: lambda x: x @ weight.T + 1  # noqa: E731
    monkeypatch.setattr("s2s_cpu.linear_backends._available", lambda: {"native": wrong, "onednn": OneDNNLinear})
    assert deterministic_backend(model()) == "onednn"
    monkeypatch.setattr("s2s_cpu.linear_backends._available", lambda: {"native": wrong})
    assert deterministic_backend(model()) == deterministic_backend(nn.ReLU()) == "torch"


def test_int8_is_refused_where_sums_would_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s_cpu.linear_backends.has_int8_linear", lambda: False)
    monkeypatch.setattr("s2s_cpu.linear_backends.int8_is_exact", lambda: False)
    with pytest.raises(ConfigError, match=r"quantization=int8: oneDNN's sums of 8-bit products overflow .* one thread"):
        prepack(model(), "auto", "int8")


def test_functions_in_c_are_refused_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.raises(ConfigError, match=r"matmul=native: .*torch has one thread.*; leave the option out"):
        prepack(model(), "native", "none")
    with pytest.raises(ConfigError, match=r"quantization=bf16: .*torch has one thread.*; leave the option out"):
        prepack(model(), "auto", "bf16")


@pytest.mark.parametrize("quantization", ["bf16", "int8"])
@pytest.mark.parametrize("matmul", ["torch", "onednn"])
def test_quantized_maps_are_not_those_of_another_library(quantization: Any, matmul: Any) -> None:
    with pytest.raises(ConfigError, match=f"quantization={quantization} has .* of its own; leave matmul={matmul} out"):
        prepack(model(), matmul, quantization)


def test_graphs_are_refused_where_they_do_not_work() -> None:
    with pytest.raises(ConfigError, match="graph=true captures steps on a CUDA device, but device is cpu"):
        accelerate(model(), torch.device("cpu"), GenerateConfig(graph=True))


def test_quantization_is_refused_where_it_does_not_work() -> None:
    with pytest.raises(
        ConfigError, match="quantization=int8 works on a CPU in fp32, but device is cpu and precision=bf16"
    ):
        accelerate(model(), torch.device("cpu"), GenerateConfig(quantization="int8", precision="bf16"))
