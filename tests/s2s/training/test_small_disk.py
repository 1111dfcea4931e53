"""The whole command on a disk that is really full for a while: it keeps training, and ends with the same bytes."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.forked_children import in_child
from harness.sorting_runs import outcome, train
from s2s.training.checkpointing import CheckpointManager
from s2s.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s.errors import CheckpointError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

RUN = ["train.steps=24", "checkpoint.every=3", "valid.every=12"]
SIZE = "size=3m"
NEWNS, NEWUSER, PRIVATE = 0x20000, 0x10000000, 1 << 18 | 1 << 14
NOT_ALLOWED = 77


def mount_small(folder: Path) -> None:
    """A disk of SIZE that this process alone sees, and that goes with it; as root, or as a root of its own making."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    allowed = libc.unshare(NEWNS | (NEWUSER if user else 0)) == 0
    if allowed and user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    allowed = allowed and libc.mount(b"none", b"/", None, PRIVATE, None) == 0
    if not allowed or libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, SIZE.encode()):
        os._exit(NOT_ALLOWED)


def full_between(disk: Path, begin: int, end: int) -> Callable[..., None]:
    """Trainer.update that fills the disk to the last byte after one update and makes room after another."""
    update, ballast = Trainer.update, disk / "ballast"

    def update_and_fill(self: Trainer, batch: Any) -> None:
        update(self, batch)
        if self.state.step == begin:
            with ballast.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(512)):
                        pass
                except OSError:
                    return
        if self.state.step == end:
            ballast.unlink()

    return update_and_fill


def test_a_disk_that_is_full_for_a_while_costs_nothing_but_checkpoints(tmp_path: Path) -> None:
    disk, whole = tmp_path / "disk", tmp_path / "whole"
    disk.mkdir()
    assert train(whole, *RUN) == 0

    failed: list[Exception] = []
    tell = CheckpointManager._failed

    def counted(self: CheckpointManager, error: CheckpointError) -> None:
        failed.append(error)
        tell(self, error)

    def on_a_small_disk() -> None:
        mount_small(disk)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Trainer, "update", full_between(disk, begin=7, end=17))
            patch.setattr(CheckpointManager, "_failed", counted)
            code = train(disk, *RUN)
        found = outcome(disk) | {"code": code, "n_failed": len(failed)}
        (tmp_path / "outcome.json").write_text(json.dumps(found))

    code = in_child(on_a_small_disk)
    if code == NOT_ALLOWED:
        pytest.skip("needs the right to mount a tmpfs, as root or in a namespace of one's own")
    assert code == 0
    found, expected = json.loads((tmp_path / "outcome.json").read_text()), outcome(whole)
    assert found["code"] == 0
    assert found["last"] == expected["last"]
    assert found["hashes"] == expected["hashes"]
    assert found["n_failed"] > 0
