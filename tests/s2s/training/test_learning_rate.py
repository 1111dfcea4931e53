"""A schedule's rates are plain numbers, which a plugin may compute with any library; its end moves with the run's."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from s2s.errors import ConfigError
from s2s.log.log import RunLength
from s2s.training.learning_rate import checked, following
from s2s_optim.schedules import CosineConfig, LinearConfig, NoamConfig, cosine, linear, noam

if TYPE_CHECKING:
    from s2s.optim import Schedule
    from s2s.registry import Choice


def test_a_schedule_that_ends_with_the_run_still_does_after_it_is_moved() -> None:
    config, length = CosineConfig(name="cosine", steps=100, warmup=10), RunLength(100)
    schedule, planned = following(cosine, config, length), cosine(config)
    assert [schedule(step) for step in range(1, 101)] == [planned(step) for step in range(1, 101)]
    length.move(40, 70)
    assert [schedule(step) for step in (40, 55, 70)] == [planned(step) for step in (40, 70, 100)]
    length.move(60, 160)
    assert schedule(60) == pytest.approx(planned(80))
    assert schedule(160) == planned(100) == 0


@pytest.mark.parametrize("schedule_of", [(cosine, CosineConfig), (linear, LinearConfig)], ids=["cosine", "linear"])
def test_no_rate_rises_in_a_decay_however_the_end_moves(schedule_of: Any) -> None:
    build, config = schedule_of
    draw = random.Random(1)
    for planned in (20, 2_000):
        length = RunLength(planned)
        schedule = following(build, config(name="x", steps=planned, warmup=planned // 10), length)
        rates, step = [], planned // 10
        while step < length.n_steps and step < 5_000:
            step += 1
            rates.append(schedule(step))
            if draw.random() < 0.05:
                length.move(step, step + draw.randint(1, 2 * planned))
        assert rates == sorted(rates, reverse=True)
        assert rates[-1] == pytest.approx(0, abs=1e-9) or step == 5_000


def test_a_schedule_with_an_end_of_its_own_stays() -> None:
    config, length = CosineConfig(name="cosine", steps=300), RunLength(100)
    schedule = following(cosine, config, length)
    length.move(20, 40)
    assert [schedule(step) for step in range(1, 301)] == [cosine(config)(step) for step in range(1, 301)]


def test_a_schedule_without_an_end_stays() -> None:
    config, length = NoamConfig(name="noam", d_model=8), RunLength(100)
    schedule = following(noam, config, length)
    length.move(50, 140)
    assert [schedule(step) for step in range(1, 200)] == [noam(config)(step) for step in range(1, 200)]


def test_a_schedule_is_asked_for_whole_updates_only() -> None:
    def build(_: Choice) -> Schedule:
        return lambda step: [1.0, 0.8, 0.4, 0.2, 0.1, 0.0][step]

    length = RunLength(5)
    schedule = following(build, CosineConfig(name="cosine", steps=5), length)
    length.move(1, 9)
    assert [schedule(step) for step in range(1, 10)] == pytest.approx([0.8, 0.6, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.0])


@pytest.mark.parametrize("rate", [0.5, np.float32(0.5), torch.tensor(0.5), torch.tensor([0.5])], ids=repr)
def test_a_rate_is_a_plain_number(rate: Any) -> None:
    lr = checked(lambda _: rate, "mine")(1)
    assert (type(lr), lr) == (float, 0.5)


@pytest.mark.parametrize("rate", [None, "fast", torch.ones(2), float("nan"), -1e-3], ids=repr)
def test_what_is_no_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ConfigError, match=r"^schedule=mine gives update 1,000 the learning rate .*; it must be finite"):
        checked(lambda _: rate, "mine")(1000)
