"""fp32 products stay fp32 whoever makes them, and only where it was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s.backend.matmul import MATMUL_BACKENDS, TOLERANCE, MatmulBackend, _is_intel, fp32_error, select_matmul

if TYPE_CHECKING:
    from pathlib import Path

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", MATMUL_BACKENDS)
def test_the_setting_ends_with_the_block(name: str) -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision
    with MatmulBackend(name, "").active():  # type: ignore[arg-type]
        assert torch.backends.mkldnn.matmul.fp32_precision == ("bf16" if name == "onednn" else before)
    assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_what_is_chosen_by_itself_is_right_to_fp32() -> None:
    chosen = select_matmul("auto", CPU)
    assert fp32_error(chosen) < TOLERANCE
    assert chosen.reason


def test_a_product_rounded_to_bf16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a processor with bf16 matrix units would do."""
    monkeypatch.setattr("s2s.backend.matmul._is_intel", lambda: False)
    monkeypatch.setattr("s2s.backend.matmul.fp32_error", lambda _: 2e-3)
    chosen = select_matmul("auto", CPU)
    assert chosen.name == "torch"
    assert not torch.backends.mkldnn.is_available() or "2e-03" in chosen.reason


def test_the_rounding_that_is_looked_for_would_be_found() -> None:
    a, b = torch.randn(64, 512), torch.randn(512, 64)
    rounded = (a.bfloat16() @ b.bfloat16()).double()
    exact = a.double() @ b.double()
    assert float((rounded - exact).norm() / exact.norm()) > 100 * TOLERANCE


@pytest.mark.parametrize(("vendor", "is_intel"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_the_vendor_is_what_the_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: str, is_intel: bool
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr("s2s.backend.matmul.Path", lambda _: tmp_path / "cpuinfo")
    assert _is_intel() == is_intel


@pytest.mark.parametrize("wanted", MATMUL_BACKENDS)
def test_what_is_asked_for_is_taken(wanted: str) -> None:
    assert select_matmul(wanted, CPU).name == wanted  # type: ignore[arg-type]


def test_a_gpu_has_its_own() -> None:
    assert select_matmul("auto", torch.device("cuda")) == ("torch", "cuda's own")


@pytest.mark.parametrize(
    ("has_onednn", "is_intel", "error", "expected"),
    [
        (False, False, 0.0, ("torch", "this torch has no oneDNN")),
        (True, True, 0.0, ("torch", "MKL, the fastest on Intel processors")),
        (True, False, TOLERANCE, ("onednn", "not an Intel processor; relative error 2e-06")),
        (True, False, 1.5 * TOLERANCE, ("torch", "oneDNN rounds fp32 products here: relative error 3e-06")),
    ],
    ids=["no oneDNN", "Intel", "exact enough", "rounded"],
)
def test_each_choice_has_its_reason(
    has_onednn: bool, is_intel: bool, error: float, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.mkldnn.is_available", lambda: has_onednn)
    monkeypatch.setattr("s2s.backend.matmul._is_intel", lambda: is_intel)
    monkeypatch.setattr("s2s.backend.matmul.fp32_error", lambda _: error)
    assert select_matmul("auto", CPU) == expected


@pytest.mark.parametrize("has_mkl", [True, False])
def test_where_the_system_does_not_say_the_vendor_mkl_is_left_to_torch(
    has_mkl: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s2s.backend.matmul.Path", lambda _: tmp_path / "missing")
    monkeypatch.setattr("torch.backends.mkl.is_available", lambda: has_mkl)
    assert _is_intel() is has_mkl
