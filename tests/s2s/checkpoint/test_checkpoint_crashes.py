from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.forked_children import in_child
from harness.small_checkpoints import N_BYTES, names, save, tensors
from s2s.checkpoint import directory
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.manifest import verify
from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_files_are_synced_then_renamed_then_the_folder_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def recording_fsync(descriptor: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    def recording_rename(old: Path, new: Path) -> None:
        calls.append(("rename", f"{old.name} -> {new.name}"))
        rename(old, new)

    save(tmp_path, 1)
    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "rename", recording_rename)
    save(tmp_path, 2)
    assert calls[0] == ("fsync", ".probe")
    assert calls[1:] == [
        *(("fsync", name) for name in ORDER),
        ("fsync", ".step-000002.tmp"),
        ("rename", ".step-000002.tmp -> step-000002"),
        ("fsync", tmp_path.name),
    ]


ORDER = ["model.safetensors", "optim.safetensors", "state.json", "MANIFEST.json"]
CRASHES = ["open", "fsync", "rename", "mkdir", "replace", "unlink", "rmdir", "chmod"]
"""The calls of `os` that change the disk, or come before one that does"""


def dies_at(k: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child that ends, without a last word, at its k-th call; whether it got that far."""
    n_calls = 0

    def count(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal n_calls
            n_calls += 1
            if n_calls == k:
                os._exit(9)
            return call(*args, **kwargs)

        return counted

    def child() -> None:
        for name in CRASHES:
            setattr(os, name, count(getattr(os, name)))
        directory.write_tensors = count(directory.write_tensors)
        action()

    code = in_child(child)
    assert code in (0, 9), "the child failed by itself"
    return code == 9


def test_wherever_a_save_dies_the_newest_is_valid_and_the_next_save_works(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    k = 1
    while dies_at(k, lambda: save(tmp_path, 3)):
        path, skipped = checkpoint.latest(tmp_path)
        assert path in (tmp_path / "step-000002", tmp_path / "step-000003")
        assert skipped == []
        save(tmp_path, 3)
        assert names(tmp_path) == ["step-000001", "step-000002", "step-000003"]
        shutil.rmtree(tmp_path / "step-000003")
        k += 1
    assert k > 12


def test_wherever_a_replacement_dies_one_of_the_two_is_there(tmp_path: Path) -> None:
    save(tmp_path, 1)
    k = 1
    while dies_at(k, lambda: checkpoint.save(tmp_path, "step-000001", tensors(7), {"step": 7})):
        checkpoint.clean_up(tmp_path)
        assert names(tmp_path) in (["step-000001"], [".probe", "step-000001"])
        assert checkpoint.load(tmp_path / "step-000001").state["step"] in (1, 7)
        save(tmp_path, 1)
        k += 1
    assert k > 12


def test_wherever_a_removal_dies_no_half_checkpoint_is_left(tmp_path: Path) -> None:
    k, died = 1, True
    while died:
        for step in (1, 2, 3):
            save(tmp_path, step)
        died = dies_at(k, lambda: checkpoint.prune(tmp_path, [tmp_path / "step-000003"]))
        checkpoint.clean_up(tmp_path)
        for path in checkpoint.steps(tmp_path):
            verify(path)
        assert tmp_path / "step-000003" in checkpoint.steps(tmp_path)
        k += 1
    assert names(tmp_path) == ["step-000003"]


@pytest.mark.parametrize("limit", [10, 100, -1])
def test_a_save_that_the_disk_cuts_off_leaves_no_trace(limit: int, tmp_path: Path) -> None:
    """The limit on the size of a file strikes first, in the middle, or at the last byte of the largest."""
    resource = pytest.importorskip("resource")
    sizes = [file.stat().st_size for file in save(tmp_path, 1).iterdir()]
    limit = limit if limit > 0 else max(sizes) - 1

    def action() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(
            CheckpointError, match=rf"step-000002.*{N_BYTES} bytes|{N_BYTES} bytes cannot be saved here"
        ):
            save(tmp_path, 2)
        assert names(tmp_path) == ["step-000001"]
        assert checkpoint.latest(tmp_path).path == tmp_path / "step-000001"

    assert in_child(action) == 0


def test_a_full_disk_is_seen_before_it_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=32_000))
    with pytest.raises(CheckpointError, match=rf"needs 2 x {N_BYTES} bytes of free space, and there are 32,000"):
        save(tmp_path, 2)
    assert names(tmp_path) == ["step-000001"]


def test_a_disk_that_fills_up_meanwhile_costs_only_the_new_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real, tiny file system; `disk_usage` lies, as if another process had taken the space since."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or os.system(f"mount -t tmpfs -o size=48k tmpfs {disk} 2>/dev/null"):
        pytest.skip("needs the right to mount a tmpfs")
    try:
        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
        save(disk, 1)
        with pytest.raises(CheckpointError, match=rf"step-000002: saving its {N_BYTES} bytes failed: .*space left"):
            save(disk, 2)
        assert names(disk) == ["step-000001"]
        assert checkpoint.latest(disk) == (disk / "step-000001", [])
        checkpoint.prune(disk, [])
        assert save(disk, 2) == disk / "step-000002"
    finally:
        os.system(f"umount {disk}")


def test_a_folder_that_cannot_be_written_to_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"file/checkpoints: 5 bytes cannot be saved here"):
        checkpoint.check_space(tmp_path / "file" / "checkpoints", 5)
