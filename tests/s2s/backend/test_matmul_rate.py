"""The rate of matrix products: the best that was seen, of products that do not take too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s.backend import device

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU = torch.device("cpu")


class Products:
    """A machine with its own clock: a product takes operations / rate, and `slow` times as long when it is busy."""

    def __init__(self, rate: float, slow: Iterator[float]) -> None:
        self.rate, self.slow, self.now = rate, slow, 0.0
        self.widths: list[int] = []

    def perf_counter(self) -> float:
        return self.now

    def seconds(self, a: torch.Tensor, b: torch.Tensor) -> float:
        self.widths.append(len(a))
        seconds = 2 * len(a) ** 3 / self.rate * next(self.slow, 1.0)
        self.now += seconds
        return seconds


@pytest.mark.parametrize(
    ("rate", "width"),
    [(200e9, 2048), (20e9, 1024), (0.5e9, 256)],
    ids=["fast", "a 2048 wide one takes a second", "without instructions for the type"],
)
def test_products_are_as_large_as_time_allows(rate: float, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Products(rate, iter(()))
    monkeypatch.setattr(device, "time", machine)
    monkeypatch.setattr(device, "_seconds", machine.seconds)
    assert device.matmul_rate(CPU, torch.float32) == pytest.approx(rate)
    assert machine.widths[-1] == width
    assert machine.now < 5


def test_of_a_busy_machine_the_best_product_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (1.0 if i % 7 == 6 else 5.0 + i % 3 for i in range(10_000))
    machine = Products(200e9, slow)
    monkeypatch.setattr(device, "time", machine)
    monkeypatch.setattr(device, "_seconds", machine.seconds)
    assert device.matmul_rate(CPU, torch.float32) == pytest.approx(200e9)
    assert machine.now < 5


def test_a_real_product_has_a_rate() -> None:
    assert device.matmul_rate(CPU, torch.float32, width=64) > 1e6
