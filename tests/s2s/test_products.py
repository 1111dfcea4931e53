"""fp32 products stay fp32 whoever makes them, and only where it was asked for."""

from __future__ import annotations

import pytest
import torch

from s2s.nn.products import LIBRARIES, TOLERANCE, Library, choose, fp32_error

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_setting_ends_with_the_block(name: str) -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision
    with Library(name, "").multiplying():  # type: ignore[arg-type]
        assert torch.backends.mkldnn.matmul.fp32_precision == ("bf16" if name == "onednn" else before)
    assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_what_is_chosen_by_itself_is_right_to_fp32() -> None:
    chosen = choose("auto", CPU)
    assert fp32_error(chosen) < TOLERANCE
    assert chosen.why


def test_a_product_rounded_to_bf16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a processor with bf16 matrix units would do."""
    monkeypatch.setattr("s2s.nn.products._is_intels", lambda: False)
    monkeypatch.setattr("s2s.nn.products.fp32_error", lambda _: 2e-3)
    chosen = choose("auto", CPU)
    assert chosen.name == "torch"
    assert not torch.backends.mkldnn.is_available() or "2e-03" in chosen.why


def test_the_rounding_that_is_looked_for_would_be_found() -> None:
    a, b = torch.randn(64, 512), torch.randn(512, 64)
    rounded = (a.bfloat16() @ b.bfloat16()).double()
    exact = a.double() @ b.double()
    assert float((rounded - exact).norm() / exact.norm()) > 100 * TOLERANCE


@pytest.mark.parametrize("wanted", LIBRARIES)
def test_what_is_asked_for_is_taken(wanted: str) -> None:
    assert choose(wanted, CPU).name == wanted  # type: ignore[arg-type]


def test_a_gpu_has_its_own() -> None:
    assert choose("auto", torch.device("cuda")).name == "torch"
