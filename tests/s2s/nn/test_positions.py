"""Position encodings against their formulas, and how the first positions are kept."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from s2s.nn.embedding import Sinusoids

CPU = torch.device("cpu")


@pytest.mark.parametrize("start", [0, 5, 100_000])
def test_sinusoids_are_section_3_5(start: int) -> None:
    table = Sinusoids(10, "paper")(torch.arange(start, start + 4), torch.float64)
    for row, p in zip(table, range(start, start + 4), strict=True):
        for i in range(5):
            angle = p / 10_000 ** (2 * i / 10)
            assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-9)
            assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-9)


@pytest.mark.parametrize("divisors", [[1], [1, 10_000], [1, 100, 10_000]])
def test_t2t_sinusoids_lie_end_to_end_and_reach_the_longest_wave(divisors: list[int]) -> None:
    table = Sinusoids(2 * len(divisors), "t2t")(torch.arange(4), torch.float64)
    for p in range(4):
        angles = [p / divisor for divisor in divisors]
        expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        assert table[p].tolist() == pytest.approx(expected, abs=1e-12)


def test_sinusoids_of_a_shift_are_a_rotation() -> None:
    """Why the paper chose them: PE(p + k) is a linear function of PE(p), whatever p."""
    positions = Sinusoids(4, "paper")
    at = lambda p: positions(torch.tensor([p]), torch.float64)[0].view(2, 2)  # noqa: E731  [wave, (sin, cos)]
    for p in (0, 3, 50):
        for wave, (s, c) in enumerate(at(7).tolist()):
            rotation = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
            assert torch.allclose(rotation @ at(p)[wave], at(p + 7)[wave])


@pytest.mark.parametrize("layout", ["paper", "t2t"])
def test_the_first_positions_are_those_computed_one_by_one(layout: Any) -> None:
    """More than before, fewer, of another type, and in another order."""
    kept = Sinusoids(8, layout)
    for n, dtype in ((3, torch.float32), (500, torch.float32), (7, torch.float64), (7, torch.float32)):
        alone = torch.stack([Sinusoids(8, layout)(torch.tensor(i), dtype) for i in range(n)])
        assert torch.equal(kept.first(n, dtype, CPU), alone)


def test_more_positions_are_kept_than_are_asked_for() -> None:
    """64 at least and twice those asked for, so that a search that asks for one more at each step computes few."""
    positions = Sinusoids(8, "paper")
    first = positions.first(3, torch.float32, CPU)
    assert positions.first(64, torch.float32, CPU).data_ptr() == first.data_ptr()
    more = positions.first(65, torch.float32, CPU)
    assert more.data_ptr() != first.data_ptr()
    assert positions.first(130, torch.float32, CPU).data_ptr() == more.data_ptr()
    assert positions.first(131, torch.float32, CPU).data_ptr() != more.data_ptr()


def test_nothing_is_kept_beside_a_cpu_or_in_a_compiled_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = Sinusoids(8, "paper")
    monkeypatch.setattr(positions, "forward", lambda position, dtype: position.to(dtype))
    there = positions.first(3, torch.bfloat16, torch.device("meta"))
    assert (there.shape, there.dtype, there.device.type) == ((3,), torch.bfloat16, "meta")
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert positions.first(3, torch.float32, CPU).tolist() == [0, 1, 2]
    assert positions.cache is None
