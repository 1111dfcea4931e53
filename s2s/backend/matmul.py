"""Which library computes fp32 matrix products on a CPU: torch's default (MKL) or oneDNN.

On processors other than Intel's, MKL reached 0.41 to 0.46 of the rate of oneDNN in the same wheel. torch sends fp32
products to oneDNN where "bf16" is allowed as their internal precision; processors without bf16 matrix units still
compute them in fp32, those with such units do not. So the error of a product is measured before oneDNN is selected.
"""

from __future__ import annotations

__all__ = ["MATMUL_BACKENDS", "MatmulBackend", "fp32_error", "select_matmul"]

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = Literal["torch", "onednn"]
MATMUL_BACKENDS: tuple[Name, ...] = ("torch", "onednn")
TOLERANCE = 2e-6
"""Relative error of an fp32 product of inner size 512; one rounded to bf16 is off by 2e-3"""


class MatmulBackend(NamedTuple):
    """The library for fp32 matrix products, and why it was selected."""

    name: Name
    reason: str

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside the block, fp32 products on the CPU are computed by this library; bf16 ones always by oneDNN."""
        flags: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # torch's stubs lack it
        before = flags.fp32_precision
        flags.fp32_precision = "bf16" if self.name == "onednn" else before
        try:
            yield
        finally:
            flags.fp32_precision = before


def select_matmul(requested: Literal["auto", "torch", "onednn"], device: torch.device) -> MatmulBackend:
    """The library for a device. Nothing is timed: a resumed run must select the same one."""
    if device.type != "cpu":
        return MatmulBackend("torch", f"{device.type}'s own")
    if requested != "auto":
        return MatmulBackend(requested, "as configured")
    if not torch.backends.mkldnn.is_available():
        return MatmulBackend("torch", "this torch has no oneDNN")
    if _is_intel():
        return MatmulBackend("torch", "MKL, the fastest on Intel processors")
    error = fp32_error(MatmulBackend("onednn", ""))
    if error > TOLERANCE:
        return MatmulBackend("torch", f"oneDNN rounds fp32 products here: relative error {error:.0e}")
    return MatmulBackend("onednn", f"not an Intel processor; relative error {error:.0e}")


def fp32_error(backend: MatmulBackend) -> float:
    """Relative error of a product as the library computes it, against float64."""
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(64, 512, generator=generator) for _ in range(2))
    with backend.active():
        product = a @ b.T
    exact = a.double() @ b.double().T
    return float((product - exact).norm() / exact.norm())


def _is_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return torch.backends.mkl.is_available()  # not Linux: leave it to torch
