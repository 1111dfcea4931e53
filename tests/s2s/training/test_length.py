"""The last update of a run is moved, and with it a schedule that ended there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from s2s.config import Config, TrainConfig
from s2s.training import end_after
from s2s_optim.schedules import CosineConfig, NoamConfig


@pytest.mark.parametrize(("own_end", "expected"), [(100, 40), (300, 300)], ids=["with the run", "elsewhere"])
def test_a_schedule_that_ended_with_the_run_still_does(own_end: int, expected: int) -> None:
    schedule = CosineConfig(name="cosine", steps=own_end)
    trainer: Any = SimpleNamespace(
        config=Config(train=TrainConfig(steps=100), schedule=schedule), log=SimpleNamespace(n_steps=100)
    )
    end_after(trainer, 40)
    assert (trainer.config.train.steps, trainer.log.n_steps, schedule.steps) == (40, 40, expected)


def test_a_schedule_without_an_end_stays() -> None:
    schedule = NoamConfig(name="noam", d_model=8)
    trainer: Any = SimpleNamespace(
        config=Config(train=TrainConfig(steps=100), schedule=schedule), log=SimpleNamespace(n_steps=100)
    )
    end_after(trainer, 140)
    assert trainer.config.train.steps == 140
    assert not hasattr(schedule, "steps")
