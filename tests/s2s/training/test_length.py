"""The end of a schedule moves with the end of its run, and its options stay as they were configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from s2s.log.length import RunLength
from s2s.training.length import following
from s2s_optim.schedules import CosineConfig, NoamConfig, cosine, noam

if TYPE_CHECKING:
    from s2s.optim import Schedule
    from s2s.registry import Choice


@pytest.mark.parametrize(("end", "moved"), [(100, 40), (300, 300)], ids=["with the run", "elsewhere"])
def test_a_schedule_that_ends_with_the_run_still_does(end: int, moved: int) -> None:
    config, length = CosineConfig(name="cosine", steps=end), RunLength(100)
    schedule = following(cosine, config, length)
    steps = range(1, 301)
    assert [schedule(step) for step in steps] == [cosine(config)(step) for step in steps]
    length.n_steps = 40
    expected = cosine(CosineConfig(name="cosine", steps=moved))
    assert [schedule(step) for step in steps] == [expected(step) for step in steps]
    assert config.steps == end


def test_a_schedule_without_an_end_stays() -> None:
    config, length = NoamConfig(name="noam", d_model=8), RunLength(100)
    schedule = following(noam, config, length)
    length.n_steps = 140
    assert [schedule(step) for step in range(1, 200)] == [noam(config)(step) for step in range(1, 200)]


def test_a_schedule_is_built_once_for_each_length() -> None:
    lengths: list[int] = []

    def build(config: Choice) -> Schedule:
        assert isinstance(config, CosineConfig)
        lengths.append(config.steps)
        return cosine(config)

    length = RunLength(10)
    schedule = following(build, CosineConfig(name="cosine", steps=10), length)
    for length.n_steps in (10, 10, 12, 10):
        schedule(1)
    assert lengths == [10, 12]
