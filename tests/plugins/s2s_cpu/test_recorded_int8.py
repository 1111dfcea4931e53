"""Linear maps in 8-bit integers with recorded scales: the arithmetic of a file of Firefox, bit by bit, in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from s2s.backend.linear import Int8Multipliers, prepack
from s2s.nn.linear import Linear
from s2s_cpu.onednn import OneDNNInt8Linear, int8_is_exact
from s2s_cpu.prepacked import HugePageArena, Int8Linear, has_int8_linear

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

KINDS: list[Any] = [
    pytest.param(
        lambda weight, bias, recorded: Int8Linear(weight, bias, HugePageArena(), recorded),
        id="native",
        marks=pytest.mark.skipif(not has_int8_linear(), reason="no AVX2"),
    ),
    pytest.param(
        OneDNNInt8Linear,
        id="onednn",
        marks=pytest.mark.skipif(not int8_is_exact(), reason="no VNNI"),
    ),
]
GENERATOR = np.random.default_rng(5)


def integers(n_outputs: int, n_inputs: int) -> Any:
    return GENERATOR.integers(-127, 128, (n_outputs, n_inputs)).astype(np.int8)


def product(x: Any, q: Any, m: Any, alpha: Any, bias: Any) -> Any:
    """x [R, I], q [O, I], bias [O] -> [R, O], in integers and fp32 alone."""
    rounded = np.clip(np.rint(x * alpha), -127, 127).astype(np.int32)
    sums = rounded @ q.T.astype(np.int32)
    return sums.astype(np.float32) * (np.float32(1) / (alpha * m)) + bias


def file_weight(q: Any, m: Any) -> Tensor:
    return torch.from_numpy(q.astype(np.float32) * (np.float32(1) / m))


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "bare"])
@pytest.mark.parametrize(
    ("n_rows", "n_inputs", "n_outputs"), [(1, 256, 1000), (37, 48, 70), (16, 1536, 256), (3, 7, 5)]
)
def test_results_are_those_of_integers(
    make: Callable[..., Any], has_bias: bool, n_rows: int, n_inputs: int, n_outputs: int
) -> None:
    q, m, alpha = integers(n_outputs, n_inputs), np.float32(61.7), np.float32(23.1)
    x = (3 * GENERATOR.standard_normal((n_rows, n_inputs))).astype(np.float32)
    x[0, :3] = [100, -100, 0.5 / alpha]  # clipped, and half of an integer
    bias = GENERATOR.standard_normal(n_outputs).astype(np.float32) * has_bias
    scales = Int8Multipliers(torch.full((n_outputs,), float(m)), torch.full((n_outputs,), float(alpha)))
    found = make(file_weight(q, m), torch.from_numpy(bias) if has_bias else None, scales)(torch.from_numpy(x))
    np.testing.assert_array_equal(found.numpy(), product(x, q, m, alpha, bias))


@pytest.mark.parametrize("make", KINDS)
def test_integers_of_a_file_are_kept_where_inputs_have_no_scale(make: Callable[..., Any]) -> None:
    """Weights of one small row would get other integers from a scale of their own."""
    q, m = integers(70, 48) // np.arange(1, 71)[:, None].astype(np.int8), np.float32(50)
    x = GENERATOR.standard_normal((9, 48)).astype(np.float32)
    scales = Int8Multipliers(torch.full((70,), float(m)), torch.zeros(70))
    found = make(file_weight(q, m), None, scales)(torch.from_numpy(x)).numpy()
    largest = np.abs(x).max(1, keepdims=True)
    rounded = np.rint(x * (127 / largest))
    expected = rounded @ q.T.astype(np.float64) / m * (largest / 127)
    np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())
    exact = x.astype(np.float64) @ (q.T / np.float64(m))
    own = make(file_weight(q, m), None, None)(torch.from_numpy(x)).numpy()
    assert not np.array_equal(found, own)
    assert np.abs(found - exact).max() < 2e-2 * np.abs(exact).max()


@pytest.mark.parametrize("make", KINDS)
def test_a_row_without_numbers_has_no_numbers_in_its_result(make: Callable[..., Any]) -> None:
    scales = Int8Multipliers(torch.full((4,), 9.0), torch.full((4,), 7.0))
    x = torch.ones(3, 8)
    x[1, 2] = torch.nan
    x[2, 5] = torch.inf
    found = make(torch.ones(4, 8), None, scales)(x)
    assert found[0].isfinite().all()
    assert found[1:].isnan().all()


@pytest.mark.skipif(not has_int8_linear(), reason="no AVX2")
def test_parts_of_a_map_may_have_inputs_of_different_scales() -> None:
    part, whole = 8, Linear(16, 24)
    scales = [np.float32(x) for x in (21.3, 30.9, 30.9)]
    m = np.float32(40)
    q = integers(3 * part, 16)
    whole.weight.data.copy_(file_weight(q, m))
    inputs = torch.tensor([float(x) for x in scales]).repeat_interleave(part)
    recorded = {whole.weight: Int8Multipliers(torch.full((3 * part,), float(m)), inputs)}
    x, bias = GENERATOR.standard_normal((5, 16)).astype(np.float32), whole.bias.detach().numpy().copy()
    assert "of the model's file" in prepack(whole, "auto", "int8", recorded)
    parts = [product(x, one, m, a, b) for one, a, b in zip(np.split(q, 3), scales, np.split(bias, 3), strict=True)]
    np.testing.assert_array_equal(whole(torch.from_numpy(x)).detach().numpy(), np.concatenate(parts, axis=1))
