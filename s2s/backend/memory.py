"""Memory of this machine that a process may still allocate: what the system, its control groups and its limits leave.

A container's limit is that of a control group (cgroup v2: memory.max, v1: memory.limit_in_bytes), often far below what
the machine has. A process that exceeds it is killed without a message, so it is checked here.
"""

from __future__ import annotations

__all__ = ["AvailableMemory", "available_memory", "proc_bytes"]

import os
import resource
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from s2s.backend.control_groups import CGROUP, PROC, group_folders, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By version of control groups: the files of limit and usage, and the field of memory.stat with the page cache that the
system would give back first"""


class AvailableMemory(NamedTuple):
    """Bytes that can still be allocated, and what limits them."""

    n_bytes: int
    limit: str


class ControlGroup(NamedTuple):
    """The files of a control group that has a memory controller."""

    limit: Path
    usage: Path
    stat: Path
    reclaimable: str
    """The field of `stat` with the page cache that the system would give back first"""


def available_memory(proc: Path = PROC, cgroup: Path = CGROUP) -> AvailableMemory:
    """The minimum over all limits. Takes about 0.1 ms."""
    return min(_limits(proc, cgroup), default=AvailableMemory(_physical(), "the machine"))


def _limits(proc: Path, cgroup: Path) -> Iterator[AvailableMemory]:
    machine = proc_bytes(proc / "meminfo", "MemAvailable:")
    if machine is not None:
        yield AvailableMemory(machine, "the machine")
    for group in _groups(proc, cgroup):
        left = _left(group)
        if left is not None:
            yield AvailableMemory(left, "the control group (container)")
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = proc_bytes(proc / "self" / "status", "VmSize:")
    if soft != resource.RLIM_INFINITY and used is not None:
        yield AvailableMemory(max(soft - used, 0), "ulimit -v")


@cache
def _groups(proc: Path, cgroup: Path) -> tuple[ControlGroup, ...]:
    """The control groups of this process that are visible to it, from its own to the root."""
    groups: list[ControlGroup] = []
    for folder, version in group_folders("memory", proc, cgroup):
        limit, usage, reclaimable = FILES[version]
        if (folder / limit).is_file():
            groups.append(ControlGroup(folder / limit, folder / usage, folder / "memory.stat", reclaimable))
    return tuple(groups)


def _left(group: ControlGroup) -> int | None:
    """Bytes up to a group's limit; None where it has none (cgroup v1: about 2^63, which is never the minimum)."""
    try:
        limit, usage = int(text_of(group.limit)), int(text_of(group.usage))
    except ValueError:  # max, or nothing
        return None
    fields = (line.partition(" ") for line in text_of(group.stat).splitlines())
    cached = next((int(value) for name, _, value in fields if name == group.reclaimable), 0)
    return max(limit - usage + cached, 0)


def proc_bytes(file: Path, name: str) -> int | None:
    """Bytes, from a file of lines such as `VmSize: 1234 kB`; None where there is no such line."""
    lines = text_of(file).splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), None)


def _physical() -> int:
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))
