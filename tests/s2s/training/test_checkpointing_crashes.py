"""kill -9 between any two system calls of the thread that writes a checkpoint while training goes on.

A killed process leaves behind what its files hold at that moment. The run's directory is therefore copied before each
call of the thread that changes the disk, and each copy is continued as if it were all there is.
"""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from harness.sorting_runs import outcome, train
from s2s.checkpoint import directory
from s2s.checkpoint import directory as checkpoint
from s2s.io import atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ARGUMENTS = ["train.steps=6", "checkpoint.every=3", "checkpoint.keep_last=1", "valid.every=3", "checkpoint.keep_best=1"]
CALLS = ["open", "fsync", "rename", "mkdir", "replace", "unlink", "rmdir", "symlink", "chmod"]
"""The calls of `os` that change the disk, or come before one that does"""


class Moments:
    """Copies of a run, one before each call of its writing thread, with the step that was being saved."""

    def __init__(self, run: Path, copies: Path) -> None:
        self.run, self.copies = run, copies
        self.found: list[tuple[int, Path]] = []
        self.step = 0
        self.is_copying = False

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, and a copy first."""

        def watched(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread().name == "s2s-job" and not self.is_copying:
                self.copy()
            return call(*arguments, **options)

        return watched

    def copy(self) -> None:
        self.is_copying = True
        path = self.copies / f"{len(self.found)}"
        shutil.copytree(self.run, path / "run", symlinks=True)
        self.found.append((self.step, path))
        self.is_copying = False


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    """Of a whole run."""
    path = tmp_path_factory.mktemp("crashes")
    moments = Moments(path / "whole" / "run", path)
    save = checkpoint.save

    def noted(where: Path, name: str, *content: Any) -> Path:
        moments.step = int(name.removeprefix("step-"))
        return save(where, name, *content)

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, moments.before(getattr(os, name)))
        patch.setattr(directory, "write_tensors", moments.before(directory.write_tensors))
        patch.setattr(checkpoint, "save", noted)
        assert train(path / "whole", *ARGUMENTS) == 0
    return moments


def test_whenever_the_thread_dies_the_newest_checkpoint_is_whole_and_at_most_one_save_old(moments: Moments) -> None:
    assert len(moments.found) > 40
    assert {step for step, _ in moments.found} == {3, 6}
    for step, path in moments.found:
        newest, skipped = checkpoint.latest(path / "run" / "checkpoints")
        assert skipped == []
        allowed = [f"step-{step:06d}", f"step-{step - 3:06d}"]
        assert newest is not None or step == 3
        assert newest is None or newest.name in allowed
        last = atomic.read_link(path / "run" / "last")
        assert last is None or last.is_dir()


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_whenever_the_thread_dies_the_run_ends_with_the_same_bytes(moments: Moments, every: int) -> None:
    expected = outcome(moments.run.parent)
    for _, path in moments.found[every // 2 :: every]:
        assert train(path, *ARGUMENTS) == 0
        assert outcome(path) == expected, path
