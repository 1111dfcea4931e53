"""A directory of checkpoints: save, load, list and remove them, each atomically."""

from __future__ import annotations

__all__ = [
    "Checkpoint",
    "Latest",
    "best_steps",
    "check_space",
    "clean_up",
    "latest",
    "load",
    "prune",
    "save",
    "step_name",
    "steps",
]

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from s2s.checkpoint.manifest import STATE, SUFFIX, groups, verify, write_manifest
from s2s.checkpoint.names import step_name, steps
from s2s.checkpoint.tensors import n_bytes, read_tensors, write_tensors
from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.io.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Checkpoint:
    """The arguments of `save`, read back."""

    path: Path
    tensors: dict[str, dict[str, Tensor]]
    """Group -> name -> tensor, on the CPU"""
    state: dict[str, Any]


class Latest(NamedTuple):
    """The newest valid checkpoint, and why newer ones were skipped, for the caller to log."""

    path: Path | None
    skipped: list[str]


def save(folder: Path, name: str, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
    """Write `folder/name` atomically, replacing an older checkpoint of that name.

    tensors: group -> name -> tensor, such as {"model": model.state_dict()}. If saving fails, the older one is kept.
    """
    if not _NAME.fullmatch(name):
        raise CheckpointError(f"'{name}' cannot name a checkpoint: use letters, digits, '-', '_' and '.'")
    needed = n_bytes(*tensors.values())
    check_space(folder, needed)
    clean_up(folder, name)
    try:
        _fill(_hidden(folder / name, "tmp"), tensors, state)
        _publish(folder / name)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / name}: saving its {needed:,} bytes failed: {error}") from error
    finally:
        clean_up(folder, name)
    return folder / name


def load(path: Path, only: Collection[str] | None = None) -> Checkpoint:
    """Verify and read a checkpoint; `only` restricts it to these groups of tensors; absent ones are skipped."""
    verify(path, only)
    selected = [group for group in groups(path) if only is None or group in only]
    try:
        tensors = {group: read_tensors(path / (group + SUFFIX)) for group in selected}
        return Checkpoint(path, tensors, read_json(path / STATE))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def latest(folder: Path) -> Latest:
    """The valid checkpoint with the highest step in its name; file times are ignored."""
    skipped = []
    for path in reversed(steps(folder)):
        try:
            verify(path)
        except CheckpointError as error:
            skipped.append(str(error))
        else:
            return Latest(path, skipped)
    return Latest(None, skipped)


def best_steps(folder: Path) -> list[Path]:
    """The best checkpoints that still exist, best first, as listed in the newest valid one."""
    newest = latest(folder).path
    state = load(newest, only=()).state.get("trainer", {}) if newest else {}
    ranked = [folder / step_name(step) for _, step in state.get("best", [])]
    return [path for path in ranked if path.is_dir()]


def prune(folder: Path, keep: Iterable[str | Path]) -> None:
    """Remove the checkpoints of all steps but those that `keep` names."""
    kept = {Path(path).name for path in keep}
    try:
        for path in steps(folder):
            if path.name not in kept:
                _remove(path)
    except OSError as error:
        raise CheckpointError(f"{folder}: an old checkpoint could not be removed: {error}") from error


def clean_up(folder: Path, name: str = "*") -> None:
    """Remove what killed saves and removals left, of one checkpoint or all; only the run's lock holder may call it."""
    for old in folder.glob(f".{name}.old"):
        target = folder / old.name[1:].removesuffix(".old")
        if not target.exists():  # killed between the two renames of a replacement
            with suppress(OSError):
                os.rename(old, target)  # noqa: PTH104  beside os.fsync, whose order with it matters
    for remnant in [*folder.glob(f".{name}.old"), *folder.glob(f".{name}.tmp")]:
        shutil.rmtree(remnant, ignore_errors=True)


def check_space(folder: Path, needed: int) -> None:
    """Raise CheckpointError unless the directory is writable and has twice `needed` bytes of free space."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_synced(probe, "probe")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise CheckpointError(f"{folder}: {needed:,} bytes cannot be saved here: {error}") from error
    finally:
        with suppress(OSError):
            probe.unlink()
    if free < 2 * needed:
        raise CheckpointError(
            f"{folder}: a checkpoint needs 2 x {needed:,} bytes of free space, and there are {free:,}: "
            "free some, or keep fewer checkpoints (checkpoint.keep_last)"
        )


def _fill(temp: Path, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
    """Write all files, each synced, the manifest last, then sync the directory."""
    temp.mkdir()
    for group, content in tensors.items():
        write_tensors(temp / (group + SUFFIX), content)
    atomic.write_synced(temp / STATE, json.dumps(state, indent=1))
    write_manifest(temp, [*(group + SUFFIX for group in tensors), STATE])
    atomic.fsync(temp)


def _publish(target: Path) -> None:
    """Rename into place; a directory cannot be replaced in one step, so an older one is renamed first."""
    if target.exists():
        os.rename(target, _hidden(target, "old"))  # noqa: PTH104
    os.rename(_hidden(target, "tmp"), target)  # noqa: PTH104
    atomic.fsync(target.parent)


def _remove(path: Path) -> None:
    """Rename to a hidden name first: killed half-way, this never leaves half a checkpoint."""
    os.rename(path, _hidden(path, "tmp"))  # noqa: PTH104
    atomic.fsync(path.parent)
    shutil.rmtree(_hidden(path, "tmp"))


def _hidden(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{suffix}")
