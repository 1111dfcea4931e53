"""Which directory `run=` means, and which checkpoint `checkpoint=`."""

from __future__ import annotations

__all__ = ["RESOLVED", "RUNS", "candidates", "find_run", "run_path", "set_last_run"]

import os
from contextlib import suppress
from pathlib import Path

from s2s.checkpoint import steps
from s2s.errors import CheckpointError, did_you_mean
from s2s.io import atomic
from s2s.io.paths import expand_user

RUNS = Path("runs")
RESOLVED = "resolved.yaml"


def run_path(name: str) -> Path:
    """The directory of a run: a bare name lies under runs/, a path is taken as it is, last is the newest run."""
    if name == "last":
        return _last()
    if "/" in name or name in (".", ".."):
        return expand_user(name, "run")
    return RUNS / name


def find_run(name: str, option: str = "run") -> Path:
    """The directory of a run that exists: `last`, its name under runs/, or its path; `option` named it."""
    tried = [run_path(name)] if name == "last" else [run_path(name), Path(name)]
    for path in tried:
        if name and _is_run(path):
            return path
    for path in tried:
        if name and os.path.isdir(path):  # noqa: PTH112  Path's own raises on a name that is too long
            raise CheckpointError(f"{option}={name}: {path} is no run directory: it has no {RESOLVED}")
    known = [p.name for p in RUNS.iterdir() if _is_run(p)] if RUNS.is_dir() else []
    hint = did_you_mean(name, {*known, *(["last"] if known else [])}) or " There are no runs under runs/ yet."
    raise CheckpointError(f"{option}={name}: no such run, neither under runs/ nor as a path.{hint}")


def _is_run(path: Path) -> bool:
    return os.path.isfile(path / RESOLVED)  # noqa: PTH113


def set_last_run(path: Path) -> None:
    """Make run=last refer to `path` from now on, if there is a writable runs/."""
    if RUNS.is_dir():
        with suppress(OSError):
            atomic.write_link(RUNS / "last", path)


def candidates(directory: Path, name: str) -> list[Path]:
    """The checkpoints that checkpoint=`name` may mean, in the order in which they are tried."""
    folder = directory / "checkpoints"
    newest = list(reversed(steps(folder)))
    best = atomic.read_link(directory / "best")
    average = folder / "average"
    if name == "auto":
        preferred = [path for path in (average, best) if path is not None and path.is_dir()]
        return list(dict.fromkeys([*preferred, *newest]))
    if name == "last":
        return newest
    if name == "best" and best is not None:
        return [best]
    for path in (folder / name, Path(name)):
        if name and path.is_dir():
            return [path]
    known = [path.name for path in newest] + ["auto", "last"]
    known += ["best"] * (best is not None) + ["average"] * average.is_dir()
    raise CheckpointError(f"checkpoint={name}: {directory} has no such checkpoint.{did_you_mean(name, known)}")


def _last() -> Path:
    path = atomic.read_link(RUNS / "last")
    if path is None or not path.is_dir():
        raise CheckpointError("run=last: no run was started here yet (runs/last points nowhere)")
    return path.resolve() if ".." in path.parts else path
