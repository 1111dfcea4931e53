"""Learning rates against the paper's formula, its printed peaks, and closed forms."""

from __future__ import annotations

import math

import pytest

from s2s_optim import schedules as s
from s2s_optim.schedules import NoamConfig, noam


@pytest.mark.parametrize(("d_model", "peak"), [(512, 6.99e-4), (1024, 4.94e-4)], ids=["base", "big"])
def test_noam_peaks_at_the_end_of_the_warmup_where_the_paper_does(d_model: int, peak: float) -> None:
    lr = noam(NoamConfig(d_model=d_model))
    assert lr(4000) == pytest.approx(peak, rel=1e-3)
    assert lr(3999) < lr(4000) > lr(4001)


def test_noam_is_linear_then_inverse_square_root() -> None:
    lr = noam(NoamConfig(d_model=512, warmup=4000))
    assert lr(2000) == pytest.approx(2000 * lr(1))
    assert lr(100_000) == pytest.approx(512**-0.5 * 100_000**-0.5)
    assert lr(16_000) == pytest.approx(lr(4000) / 2)


def test_inverse_sqrt_is_noam_with_its_peak_given() -> None:
    lr = noam(NoamConfig(d_model=64, warmup=50))
    same = s.inverse_sqrt(s.InverseSqrtConfig(lr=lr(50), warmup=50))
    assert [same(t) for t in range(1, 500)] == pytest.approx([lr(t) for t in range(1, 500)])


def test_cosine_ends_where_it_should_and_is_halfway_in_the_middle() -> None:
    lr = s.cosine(s.CosineConfig(lr=1.0, warmup=10, steps=110, end=0.2))
    assert lr(10) == pytest.approx(1.0)
    assert lr(60) == pytest.approx(0.6)
    assert lr(35) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)
    assert lr(110) == lr(10_000) == pytest.approx(0.2)


def test_linear_falls_by_equal_amounts() -> None:
    lr = s.linear(s.LinearConfig(lr=1.0, warmup=0, steps=100, end=0.0))
    falls = [lr(t) - lr(t + 1) for t in range(1, 100)]
    assert falls == pytest.approx([0.01] * 99)
    assert lr(100) == 0.0


def test_constant_warms_up_and_stays() -> None:
    lr = s.constant(s.ConstantConfig(lr=0.5, warmup=4))
    assert [lr(t) for t in range(1, 7)] == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5, 0.5])


def test_without_warmup_every_schedule_starts_at_its_peak_or_just_below() -> None:
    assert s.constant(s.ConstantConfig(lr=0.5, warmup=0))(1) == 0.5
    assert s.inverse_sqrt(s.InverseSqrtConfig(lr=0.5, warmup=0))(1) == 0.5
    assert s.inverse_sqrt(s.InverseSqrtConfig(lr=0.5, warmup=0))(4) == 0.25
