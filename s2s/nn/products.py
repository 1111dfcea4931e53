"""Which library multiplies fp32 matrices on a CPU.

torch takes MKL, which on processors other than Intel's reached 0.41 to 0.46 of the rate of oneDNN in the same wheel.
oneDNN takes fp32 products where "bf16" is allowed for their inner precision; on processors without bf16 matrix units
it computes them in fp32 all the same, and on those with such units it does not: so a product is checked first.
"""

from __future__ import annotations

__all__ = ["LIBRARIES", "Library", "choose"]

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = Literal["torch", "onednn"]
LIBRARIES: tuple[Name, ...] = ("torch", "onednn")
TOLERANCE = 2e-6
"""Relative error of an fp32 product of inner size 512; one rounded to bf16 is off by 2e-3"""


class Library(NamedTuple):
    """Who multiplies, and why."""

    name: Name
    why: str

    @contextmanager
    def multiplying(self) -> Iterator[None]:
        """Inside the block, fp32 products on the CPU are this library's; bf16 is always oneDNN's."""
        flags: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # torch's stubs lack it
        before = flags.fp32_precision
        flags.fp32_precision = "bf16" if self.name == "onednn" else before
        try:
            yield
        finally:
            flags.fp32_precision = before


def choose(wanted: Literal["auto", "torch", "onednn"], device: torch.device) -> Library:
    """The library for a device. No stopwatch decides: a run that continues must find what it began with."""
    if device.type != "cpu":
        return Library("torch", f"{device.type}'s own")
    if wanted != "auto":
        return Library(wanted, "as asked")
    if not torch.backends.mkldnn.is_available():
        return Library("torch", "this torch has no oneDNN")
    if _is_intels():
        return Library("torch", "an Intel processor, at home in MKL")
    error = fp32_error(Library("onednn", ""))
    if error > TOLERANCE:
        return Library("torch", f"here oneDNN rounds fp32 products: relative error {error:.0e}")
    return Library("onednn", f"not an Intel processor; relative error {error:.0e}")


def fp32_error(library: Library) -> float:
    """Relative error of a product as the library makes it, against float64."""
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randn(64, 512, generator=draw) for _ in range(2))
    with library.multiplying():
        found = a @ b.T
    exact = a.double() @ b.double().T
    return float((found - exact).norm() / exact.norm())


def _is_intels() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return torch.backends.mkl.is_available()  # not Linux: leave it to torch
