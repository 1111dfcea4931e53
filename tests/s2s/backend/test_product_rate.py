"""The rate of matrix products: the best that was measured, with products that do not take too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s.backend import product_rate as rates

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
START = 1000.0
"""What the clock shows at first"""
CALL = 1e-3
"""Seconds that a product takes, however small"""


class Products:
    """A machine with its own clock: a product takes operations / rate, or `CALL`, and `slow` times that when busy."""

    def __init__(self, rate: float, slow: Iterator[float]) -> None:
        self.rate, self.slow, self.now = rate, slow, START
        self.widths: list[int] = []
        self.longest = 0.0

    def perf_counter(self) -> float:
        return self.now

    def seconds(self, a: torch.Tensor, b: torch.Tensor) -> float:
        self.widths.append(len(a))
        seconds = max(2 * len(a) ** 3 / self.rate, CALL) * next(self.slow, 1.0)
        self.now += seconds
        self.longest = max(self.longest, seconds)
        return seconds


def use(machine: Products, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of this one, without memory for its matrices."""
    monkeypatch.setattr(rates, "time", machine)
    monkeypatch.setattr(rates, "_seconds", machine.seconds)
    monkeypatch.setattr("torch.randn", lambda *shape, device: torch.empty(shape, device="meta"))


@pytest.mark.parametrize(
    ("of", "rate", "widths"),
    [
        (CPU, 200e9, [256, 512, 1024, 2048]),
        (CPU, 1e13, [256, 512, 1024, 2048]),
        (CUDA, 8e14, [256, 512, 1024, 2048, 4096, 8192]),
        (CPU, 20e9, [256, 512, 1024]),
        (CPU, 2 * 256**3 / 0.0625, [256, 512]),
        (CPU, 2 * 256**3 / 0.0626, [256]),
        (CPU, 0.5e9, [256]),
    ],
    ids=["CPU", "large CPU", "GPU", "2048: a second", "512: half a second", "512: longer", "bf16 without instructions"],
)
def test_products_are_as_large_as_time_allows(
    of: torch.device, rate: float, widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is tried for a tenth of a second, and the last measured for half a second after the best."""
    machine = Products(rate, iter(()))
    use(machine, monkeypatch)
    assert rates.matmul_rate(of, torch.float32) == pytest.approx(rate)
    assert list(dict.fromkeys(machine.widths)) == widths
    least = 0.1 * len(widths) + 0.5
    assert least - 1e-6 < machine.now - START < least + 0.1 + 4 * machine.longest


@pytest.mark.parametrize("width", [100, 512])
def test_a_width_that_is_asked_for_is_measured(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Products(2e9, iter(()))
    use(machine, monkeypatch)
    assert rates.matmul_rate(CPU, torch.float32, width) == pytest.approx(2e9)
    assert machine.widths[-1] == width


def test_of_a_busy_machine_the_best_product_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (1.0 if i % 7 == 6 else 5.0 + i % 3 for i in range(10_000))
    machine = Products(200e9, slow)
    use(machine, monkeypatch)
    assert rates.matmul_rate(CPU, torch.float32) == pytest.approx(200e9)
    assert machine.now - START < 5


def test_a_machine_that_gets_ever_faster_is_measured_for_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Products(2.0, (0.97**i for i in range(100)))
    use(machine, monkeypatch)
    one = torch.ones(1, 1)
    assert rates._best(one, one) == pytest.approx(0.97**3)
    assert machine.now - START == pytest.approx(1 + 0.97 + 0.97**2 + 0.97**3), "the first three take 2.9 seconds"


def test_a_product_that_is_hardly_faster_does_not_prolong_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Products(2.0, (0.3 * 0.985**i for i in range(100)))
    use(machine, monkeypatch)
    one = torch.ones(1, 1)
    assert rates._best(one, one) == pytest.approx(0.3 * 0.985**2)


def test_a_real_product_has_a_rate() -> None:
    assert rates.matmul_rate(CPU, torch.float32, width=64) > 1e6


def test_products_are_timed_by_the_clock_of_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU by this process's own time, so that a busy machine has the rates of an idle one."""
    seconds = iter([5.0, 5.25, 9.0, 9.0])
    monkeypatch.setattr("s2s.backend.core_devices.time.thread_time", lambda: next(seconds))
    one = torch.ones(1, 1)
    assert rates._seconds(one, one) == 0.25
    assert rates._seconds(one, one) > 0, "a clock may stand still during a small product"
