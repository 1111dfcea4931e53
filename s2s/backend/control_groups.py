"""The control groups of this process, with which containers and job schedulers limit memory and processor time."""

from __future__ import annotations

__all__ = ["CGROUP", "PROC", "group_folders", "text_of"]

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC, CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def group_folders(controller: str, proc: Path = PROC, cgroup: Path = CGROUP) -> Iterator[tuple[Path, int]]:
    """Folders in which this process's groups may have files of a controller, from its own to the root's, each with the
    version of control groups, 1 or 2.

    A container often sees its own group as the root, though /proc names its place outside.
    """
    for line in text_of(proc / "self" / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            root, version = cgroup, 2
        elif controller in controllers.split(","):
            root, version = cgroup / controller, 1
        else:
            continue
        own = root / path.strip("/")
        yield from ((folder, version) for folder in (own, *own.parents))


def text_of(file: Path) -> str:
    """The contents of a file; nothing if it cannot be read."""
    try:
        return file.read_text()
    except OSError:
        return ""
