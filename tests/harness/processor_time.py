"""CPU time of processes, as Linux counts it, to tell a hang from waiting on a busy machine."""

from __future__ import annotations

from pathlib import Path


def scheduled(pid: int) -> int:
    """Nanoseconds that the threads of a process have computed, or waited for a processor; 0 when it is gone."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            ran, waited, _ = file.read_text().split()
        except (OSError, ValueError):  # a thread that has ended
            continue
        total += int(ran) + int(waited)
    return total


def scheduled_in_session(session: int) -> int:
    """The same of all processes of a session, such as a child that called `os.setsid` and what it started."""
    return sum(scheduled(pid) for pid in _processes() if _session(pid) == session)


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _session(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return -1
