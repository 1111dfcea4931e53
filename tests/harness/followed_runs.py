"""A log and the lines about it, fed by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from harness.shipped_plugins import shipped
from s2s import Observer
from s2s.config import Config, TrainConfig
from s2s.config.run import LogConfig
from s2s.log.log import Log, RunLength
from s2s.log.progress import RunLines
from s2s.log.screen import choose_screen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Clock:
    """A clock that moves by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Run(Observer):
    """A log, and lines about it from `start` on, as a trainer calls them."""

    def __init__(self, path: Path, config: Config, log: Log) -> None:
        self.path, self.config, self.log = path, config, log
        self.observers: list[Observer] = [log]
        self.state = SimpleNamespace(step=0)

    def start(self, step: int) -> None:
        self.log.start(step)
        step_of_objective = SimpleNamespace(objective=SimpleNamespace(extras=("nll",)))
        trainer: Any = SimpleNamespace(
            directory=self.path, config=self.config, log=self.log, state=self.state, train_step=step_of_objective
        )
        self.observers.append(RunLines(trainer, trainer.log))

    def updated(self, *records: Mapping[str, Any]) -> None:
        """After these updates, which were read together."""
        self.state.step = records[-1]["step"]
        for record in records:
            self._updated(record)

    def _updated(self, record: Mapping[str, Any]) -> None:
        for observer in self.observers:
            observer.updated(record)

    def validated(self, record: Mapping[str, Any]) -> None:
        for observer in self.observers:
            observer.validated(record)

    def saved(self, path: Path, seconds: float) -> None:
        for observer in self.observers:
            observer.saved(path, seconds)

    def finished(self, summary: Mapping[str, Any]) -> None:
        for observer in reversed(self.observers):
            observer.finished(summary)

    def close(self, error: BaseException | None) -> None:
        for observer in reversed(self.observers):
            observer.close(error)


def make(
    path: Path, every: int = 2, n_steps: int = 100_000, form: Any = "text", quiet: bool = False, rank: int = 0
) -> Run:
    config = LogConfig(every=every, format=form, tensorboard=False)
    screen = choose_screen(config, shipped().registry, quiet=quiet or rank > 0)
    log = Log(path, config, RunLength(n_steps), screen, rank)
    return Run(path, Config(train=TrainConfig(steps=n_steps), log=config), log)


def update(step: int, **more: Any) -> dict[str, Any]:
    numbers = {"loss": 3.214, "nll": 1.98, "lr": 6.3e-4, "gnorm": 0.41, "tokens": 41_200, "padding": 0.062}
    numbers |= {"seconds": 0.2, "device_seconds": 0.2, "wait": 0.005, "mfu": 0.5, "flops": 9.4e9, "memory": 1.94e9}
    return {"step": step, **numbers, **more}
