"""The numbers of a run in TensorBoard's own reader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.config import Config
from s2s.config.run import LogConfig
from s2s.log import Screen
from s2s.log.log import Log, RunLength
from s2s_tensorboard import s2s_observe

if TYPE_CHECKING:
    from pathlib import Path


def trainer(directory: Path, step: int = 0, **log: Any) -> Any:
    """What the plugin sees of a trainer."""
    config = Config(log=LogConfig(**log))
    main, state = SimpleNamespace(is_main=True), SimpleNamespace(step=step)
    shown = Log(directory, config.log, RunLength(config.train.steps), Screen())
    return SimpleNamespace(config=config, directory=directory, world=main, state=state, log=shown)


def test_it_gets_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    plots = s2s_observe(trainer(tmp_path, every=2))
    assert plots
    for step in (1, 2, 3, 4):
        record = {"step": step, "loss": 1.0 / step, "skipped": False}
        plots.updated(record | {"tokens": 10 * step, "seconds": 1.5, "wait": 0.5})
    plots.validated({"step": 4, "nll": 1.0, "bleu": 30.5, "best": True, "signatures": {"bleu": "x"}})
    plots.close(None)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [e.step for e in events.Scalars("train/loss")] == [2, 4]
    assert [e.value for e in events.Scalars("train/tokens_per_second")] == [30 / 4, 70 / 4]
    assert [e.value for e in events.Scalars("valid/bleu")] == [30.5]
    assert "train/skipped" not in events.Tags()["scalars"]


def test_it_is_an_option(tmp_path: Path) -> None:
    assert s2s_observe(trainer(tmp_path, tensorboard=False)) is None
    assert not list(tmp_path.iterdir())
