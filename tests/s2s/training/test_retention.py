"""Which checkpoints are kept and averaged, against the rule in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.small_checkpoints import save
from s2s.checkpoint import directory as checkpoint
from s2s.compose import compose
from s2s.config import Config
from s2s.io import atomic
from s2s.plugin import load_plugins
from s2s.training.retention import Retention
from s2s.training.state import TrainerState

if TYPE_CHECKING:
    from pathlib import Path

BEST = [(5.0, 2), (4.0, 1), (3.0, 4), (2.0, 3)]
"""Criteria and steps, best first"""


class Warnings:
    """A log of warnings alone."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


def retention(folder: Path, *arguments: str, n: int = 5) -> Retention:
    """Of a run with checkpoints after 1 to n updates."""
    log: Any = Warnings()
    for step in range(1, n + 1):
        save(folder / "checkpoints", step)
    given = ["task=translation_tiny", "arch=transformer_tiny", *arguments]
    return Retention(compose(Config, given, load_plugins()).config, folder / "checkpoints", log)


def steps(folder: Path) -> list[int]:
    return [int(path.name[5:]) for path in checkpoint.steps(folder / "checkpoints")]


def state(**values: Any) -> TrainerState:
    return TrainerState(**values)


@pytest.mark.parametrize(
    ("arguments", "n_last", "n_best"),
    [
        (["checkpoint.keep_last=2", "checkpoint.keep_best=3"], 2, 3),
        (["checkpoint.keep_last=2", "train.average=4", "train.average_of=last"], 4, 1),
        (["checkpoint.keep_last=6", "train.average=4", "train.average_of=last"], 6, 1),
        (["checkpoint.keep_last=2", "train.average=4", "train.average_of=best"], 2, 4),
    ],
    ids=str,
)
def test_as_many_are_kept_as_were_asked_for_and_will_be_averaged(
    arguments: list[str], n_last: int, n_best: int, tmp_path: Path
) -> None:
    given = retention(tmp_path, *arguments, n=0)
    assert (given.n_last(), given.n_best()) == (n_last, n_best)


@pytest.mark.parametrize(("n_last", "n_best", "left"), [(1, 1, [2, 5]), (2, 2, [1, 2, 4, 5]), (3, 1, [2, 3, 4, 5])])
def test_the_newest_and_the_best_are_left_and_linked(n_last: int, n_best: int, left: list[int], tmp_path: Path) -> None:
    given = retention(tmp_path, f"checkpoint.keep_last={n_last}", f"checkpoint.keep_best={n_best}")
    given.apply("step-000005", state(step=5, best=BEST), interim="")
    assert steps(tmp_path) == left
    assert atomic.read_link(tmp_path / "last") == tmp_path / "checkpoints/step-000005"
    assert atomic.read_link(tmp_path / "best") == tmp_path / "checkpoints/step-000002"


def test_interim_and_later_ones_are_removed(tmp_path: Path) -> None:
    given = retention(tmp_path, "checkpoint.keep_last=5", "checkpoint.keep_best=1")
    given.apply("step-000004", state(step=4, best=[(1.0, 9)]), interim="step-000003")
    assert steps(tmp_path) == [1, 2, 4]
    assert atomic.read_link(tmp_path / "best") is None, "the best is not there any more"
    given.apply("step-000004", state(step=4), interim="step-000004")
    assert steps(tmp_path) == [1, 2, 4], "the one just saved stays"


@pytest.mark.parametrize(("of", "members"), [("best", [2, 1, 3]), ("last", [5, 3, 2])])
def test_the_best_or_the_newest_that_are_whole_are_averaged(of: str, members: list[int], tmp_path: Path) -> None:
    given = retention(tmp_path, "train.average=3", f"train.average_of={of}")
    (tmp_path / "checkpoints/step-000004/model.safetensors").write_bytes(b"?")
    chosen = given.checkpoints_to_average(state(step=5, best=BEST))
    assert [int(path.name[5:]) for path in chosen] == members
    (warning,) = given.log.texts  # type: ignore[attr-defined]
    assert warning.startswith("not averaged: ")


@pytest.mark.parametrize(
    ("of", "advice"), [("last", "save more often (checkpoint.every)"), ("best", "validate more often (valid.every)")]
)
def test_that_fewer_are_averaged_than_were_asked_for_is_said(of: str, advice: str, tmp_path: Path) -> None:
    given = retention(tmp_path, "train.average=5", f"train.average_of={of}", n=2)
    assert len(given.checkpoints_to_average(state(step=2, best=[(2.0, 2), (1.0, 1)]))) == 2
    (warning,) = given.log.texts  # type: ignore[attr-defined]
    said = f"the run has 2 of 5 checkpoints to average; {advice}, or raise train.steps"
    assert warning == f"train.average=5: {said}"


def test_without_an_average_nothing_is_said(tmp_path: Path) -> None:
    given = retention(tmp_path, "train.average=0")
    assert (given.checkpoints_to_average(state(step=5)), given.log.texts) == ([], [])  # type: ignore[attr-defined]


def test_room_is_made_by_all_but_the_newest_and_the_best(tmp_path: Path) -> None:
    given = retention(tmp_path)
    atomic.write_link(tmp_path / "best", tmp_path / "checkpoints/step-000003")
    given.free_space()
    assert steps(tmp_path) == [3, 5]
    (tmp_path / "best").unlink()
    given.free_space()
    assert steps(tmp_path) == [5]
