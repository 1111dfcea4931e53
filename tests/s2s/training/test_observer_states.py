"""What an observer keeps is in the checkpoint: a run that it ends early ends there, interrupted or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.folders import HARNESS
from harness.sorting_runs import WATCH, outcome, train, train_in_ranks
from s2s import Observer, PluginError
from s2s.training.state import load_states, observer_states

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = f"plugins=[s2s_example,{WATCH},{HARNESS / 'stopping_plugin.py'}]"
STEPS = 60
OPTIONS = [PLUGINS, f"train.steps={STEPS}", "checkpoint.every=4", "valid.every=0", "schedule.lr=3e-2"]


def state(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / "run" / "checkpoints" / name / "state.json").read_text())


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATIENCE", "6")


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> dict[str, Any]:
    """The outcome of a run that a signal stopped after an update, continued."""
    monkeypatch.setenv("SIGNAL", f"TERM updating {step}")
    assert train(folder, *OPTIONS) == 75
    monkeypatch.setenv("SIGNAL", "none")
    assert train(folder, *OPTIONS) == 0
    return outcome(folder)


@pytest.mark.usefixtures("patient")
def test_an_early_stopper_ends_an_interrupted_run_where_it_ends_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tmp_path / "whole", *OPTIONS) == 0
    whole = outcome(tmp_path / "whole")
    last = int(whole["last"].removeprefix("step-"))
    assert 8 < last < STEPS
    for step in (last - 1, last - 5, last):
        assert interrupted(tmp_path / f"killed{step}", monkeypatch, step) == whole
        assert (
            state(tmp_path / f"killed{step}", whole["last"])["observers"]
            == state(tmp_path / "whole", whole["last"])["observers"]
        )
    monkeypatch.setenv("FORGETS", "1")
    assert interrupted(tmp_path / "forgotten", monkeypatch, last - 1)["last"] != whole["last"]


@pytest.mark.usefixtures("patient")
def test_all_ranks_continue_from_it(tmp_path: Path) -> None:
    assert train_in_ranks(tmp_path / "whole", 2, *OPTIONS) == [0, 0]
    whole = outcome(tmp_path / "whole")
    last = int(whole["last"].removeprefix("step-"))
    signal = {rank: {"SIGNAL": f"TERM updating {last - 3}"} for rank in range(2)}
    assert train_in_ranks(tmp_path / "killed", 2, *OPTIONS, env=signal) == [75, 75]
    assert train_in_ranks(tmp_path / "killed", 2, *OPTIONS) == [0, 0]
    assert outcome(tmp_path / "killed") == whole


def test_a_checkpoint_without_states_loads_and_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(tmp_path / "a", "train.steps=4", "valid.every=0") == 0
    assert "observers" not in state(tmp_path / "a", "step-000004")
    assert not (tmp_path / "a" / "run" / "checkpoints" / "step-000004" / "observers.safetensors").exists()
    monkeypatch.setenv("PATIENCE", "100")
    assert train(tmp_path / "a", PLUGINS, "train.steps=6", "valid.every=0") == 0
    assert "observers" in state(tmp_path / "a", "step-000006")


class Keeping(Observer):
    """Keeps what it is given."""

    def __init__(self, kept: dict[str, Any], key: str = "a") -> None:
        self.kept, self._key = kept, key

    @property
    def key(self) -> str:
        return self._key

    def state_dict(self) -> dict[str, Any]:
        return self.kept

    def load_state_dict(self, state: Any) -> None:
        self.kept = state


def test_states_are_kept_by_their_keys() -> None:
    one, two = {"t": torch.ones(2)}, {"n": 3}
    observers = [Keeping(one, "a"), Observer(), Keeping(two, "b"), Keeping({}, "a")]
    assert observer_states(observers) == {"a": one, "b": two}
    new = [Keeping({}, "b"), Keeping({}, "c")]
    load_states(new, {"a": one, "b": two})
    assert [observer.kept for observer in new] == [two, {}]
    with pytest.raises(PluginError, match="two observers keep a state as 'a'"):
        observer_states([Keeping(one), Keeping(two)])
    assert Observer().key == "Observer"
