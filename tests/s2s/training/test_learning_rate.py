"""A schedule's rates are plain numbers, which a plugin may compute with any library; its end moves with the run's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from s2s.errors import ConfigError
from s2s.log.log import RunLength
from s2s.training.learning_rate import checked, following
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


@pytest.mark.parametrize("rate", [0.5, np.float32(0.5), torch.tensor(0.5), torch.tensor([0.5])], ids=repr)
def test_a_rate_is_a_plain_number(rate: Any) -> None:
    lr = checked(lambda _: rate, "mine")(1)
    assert (type(lr), lr) == (float, 0.5)


@pytest.mark.parametrize("rate", [None, "fast", torch.ones(2), float("nan"), -1e-3], ids=repr)
def test_what_is_no_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ConfigError, match=r"^schedule=mine gives update 1,000 the learning rate .*; it must be finite"):
        checked(lambda _: rate, "mine")(1000)
