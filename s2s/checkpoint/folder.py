"""A folder of checkpoints: one is added, found, removed, and none is ever half there."""

from __future__ import annotations

__all__ = [
    "Checkpoint",
    "Newest",
    "load",
    "newest",
    "preflight",
    "prune",
    "save",
    "step_name",
    "steps",
    "sweep",
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

from s2s import durable
from s2s.checkpoint.manifest import STATE, SUFFIX, groups, verify, write_manifest
from s2s.checkpoint.tensors import read_tensors, size, write_tensors
from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """What `save` was given, and where it lies."""

    path: Path
    tensors: dict[str, dict[str, Tensor]]
    """Group -> name -> tensor, on the CPU"""
    state: dict[str, Any]


class Newest(NamedTuple):
    """The newest valid checkpoint, and why newer ones were passed over, for the caller to show."""

    path: Path | None
    skipped: list[str]


def save(folder: Path, name: str, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
    """Write `folder/name`, whole or not at all; an older one of that name is replaced.

    tensors: group -> name -> tensor, such as {"model": model.state_dict()}. Whatever goes wrong, what was
    saved before is still there.
    """
    if not _NAME.fullmatch(name):
        raise CheckpointError(f"'{name}' cannot name a checkpoint: use letters, digits, '-', '_' and '.'")
    needed = size(*tensors.values())
    preflight(folder, needed)
    sweep(folder, name)
    try:
        _fill(_hidden(folder / name, "tmp"), tensors, state)
        _publish(folder / name)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / name}: saving its {needed:,} bytes failed: {error}") from error
    finally:
        sweep(folder, name)
    return folder / name


def load(path: Path, only: Collection[str] | None = None) -> Checkpoint:
    """Verify a checkpoint and read it; of tensors `only` these groups, as far as they are there."""
    verify(path, only)
    wanted = [group for group in groups(path) if only is None or group in only]
    try:
        tensors = {group: read_tensors(path / (group + SUFFIX)) for group in wanted}
        return Checkpoint(path, tensors, json.loads((path / STATE).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def newest(folder: Path) -> Newest:
    """The valid checkpoint with the highest step in its name: clocks and file times mean nothing."""
    skipped = []
    for path in reversed(steps(folder)):
        try:
            verify(path)
        except CheckpointError as error:
            skipped.append(str(error))
        else:
            return Newest(path, skipped)
    return Newest(None, skipped)


def steps(folder: Path) -> list[Path]:
    """All checkpoints that are named after a step, valid or not, in the order of the steps."""
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if _STEP.fullmatch(path.name) and path.is_dir())
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def step_name(step: int) -> str:
    """The name of the checkpoint after update `step`."""
    return f"step-{step:06d}"


def prune(folder: Path, keep: Iterable[str | Path]) -> None:
    """Remove the checkpoints of all steps but those that `keep` names."""
    kept = {Path(path).name for path in keep}
    try:
        for path in steps(folder):
            if path.name not in kept:
                _remove(path)
    except OSError as error:
        raise CheckpointError(f"{folder}: an old checkpoint could not be removed: {error}") from error


def sweep(folder: Path, name: str = "*") -> None:
    """Tidy up after killed saves and removals, of one checkpoint or of all: for the run's owner only."""
    for old in folder.glob(f".{name}.old"):
        target = folder / old.name[1:].removesuffix(".old")
        if not target.exists():  # killed between the two renames of a replacement
            with suppress(OSError):
                os.rename(old, target)  # noqa: PTH104  beside os.fsync, whose order with it matters
    for remnant in [*folder.glob(f".{name}.old"), *folder.glob(f".{name}.tmp")]:
        shutil.rmtree(remnant, ignore_errors=True)


def preflight(folder: Path, needed: int) -> None:
    """Raise CheckpointError unless `needed` bytes can be saved here, and as many are left to spare."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        durable.write_new(probe, "can files be made and synced here?")
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
    """All files, each synced, the manifest last, then the directory that lists them."""
    temp.mkdir()
    for group, content in tensors.items():
        write_tensors(temp / (group + SUFFIX), content)
    durable.write_new(temp / STATE, json.dumps(state, indent=1))
    write_manifest(temp, [*(group + SUFFIX for group in tensors), STATE])
    durable.sync(temp)


def _publish(target: Path) -> None:
    """Rename into place; a directory cannot be replaced in one step, so an older one steps aside first."""
    if target.exists():
        os.rename(target, _hidden(target, "old"))  # noqa: PTH104
    os.rename(_hidden(target, "tmp"), target)  # noqa: PTH104
    durable.sync(target.parent)


def _remove(path: Path) -> None:
    """By a rename first: killed half-way, this leaves a hidden remnant and never half a checkpoint."""
    os.rename(path, _hidden(path, "tmp"))  # noqa: PTH104
    durable.sync(path.parent)
    shutil.rmtree(_hidden(path, "tmp"))


def _hidden(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{suffix}")
