"""Which observers follow a run, in which order, and how they are closed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.sorting_runs import train
from s2s import Observer
from s2s.log.progress import RunLines
from s2s.training import Trainer


class Noting(Observer):
    """Writes down how training ended."""

    step = 0

    def __init__(self, heard: list[Any], name: str, raised: Exception | None = None) -> None:
        self.heard, self.name, self.raised = heard, name, raised

    def close(self, error: BaseException | None) -> None:
        self.heard.append((self.name, error))
        if self.raised:
            raise self.raised


def trainer(log: Observer, *observers: Observer) -> Any:
    """With a hook that gives these observers; hooks answer with the plugin that was loaded last first."""
    hook = SimpleNamespace(s2s_observe=lambda trainer: list(reversed(observers)))
    valid = SimpleNamespace(best="nll")
    config = SimpleNamespace(train=SimpleNamespace(steps=3), log=SimpleNamespace(every=1), valid=valid)
    train_step = SimpleNamespace(objective=SimpleNamespace(extras=("nll",)))
    checkpoints = SimpleNamespace(observers={})
    parts = {"log": log, "train_step": train_step, "checkpoints": checkpoints}
    return SimpleNamespace(hook=hook, config=config, directory=Path("run"), **parts)


def test_the_log_is_first_lines_are_second_and_others_follow_as_they_were_loaded() -> None:
    log, one, two = Noting([], "log"), Noting([], "one"), Noting([], "two")
    followed = trainer(log, one, two)
    with Trainer.observed(followed):
        first, second, *others = followed.observers
    assert (first, type(second), others) == (log, RunLines, [one, two])


def test_all_are_closed_with_the_error_the_log_last_though_one_of_them_fails() -> None:
    heard: list[Any] = []
    broken = Noting(heard, "broken", OSError("no network"))
    followed = trainer(Noting(heard, "log"), Noting(heard, "one"), broken)
    ended = ValueError("ended")

    def run() -> None:
        with Trainer.observed(followed):
            raise ended

    with pytest.raises(OSError, match="no network"):
        run()
    assert heard[0] == ("broken", ended)
    assert [name for name, _ in heard] == ["broken", "one", "log"]
    assert all(error is not None for _, error in heard)


@pytest.mark.parametrize(
    ("kind", "code", "name"), [("signal", 75, "Preempted"), ("nan", 1, "S2SError"), ("none", 0, None)]
)
def test_an_observer_hears_what_ends_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: int, name: str | None
) -> None:
    monkeypatch.setenv("WATCH", str(tmp_path / "heard"))
    monkeypatch.setenv("SIGNAL", "TERM updating 2" if kind == "signal" else "none")
    monkeypatch.setenv("SPOIL", "1 2" if kind == "nan" else "")
    assert train(tmp_path / "a", "train.steps=4", "valid.every=0", "train.max_bad=2") == code
    *others, last = map(json.loads, (tmp_path / "heard").read_text().splitlines())
    assert (last["hook"], last["error"]) == ("close", name)
    assert ("finished" in [line["hook"] for line in others]) == (code == 0)
