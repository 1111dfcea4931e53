"""kill -9 at random moments, again and again, until a training is done: does it end as if nothing had happened?

    report = kill_again_and_again(f"{__file__}:train", tmp_path, n_kills=25)
    for run in report.runs:
        assert fingerprint(run / "checkpoints") == fingerprint(report.whole / "checkpoints")

The target, a function of a folder in any file, trains there from wherever it stands, and returns when all is
done. It runs in forks of a server process that has imported torch once, with one thread and nothing computed yet;
so an attempt starts in milliseconds, if the target's file imports at its top what training needs. The first run,
`whole`, is left alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KILLS_PER_RUN = 5
FAILED = 3
"""Exit code of an attempt that raised: it could not resume, or not train"""


@dataclass(frozen=True)
class Report:
    """What was done."""

    whole: Path
    """Folder of the run that nobody killed"""
    runs: list[Path]
    """Folders of the runs that were killed, all of them done"""
    n_kills: int
    seconds: float
    """How long the whole run took"""


def kill_again_and_again(target: str, folder: Path, *, n_kills: int, seed: int = 0, limit: float = 300) -> Report:
    """Train until `n_kills` kills have struck, over as many runs as that takes; every run is trained to its end.

    target: "file.py:function". AssertionError if an attempt fails by itself.
    """
    command = [sys.executable, __file__, target, str(folder), str(n_kills), str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    assert done.returncode == 0, f"an attempt failed by itself:\n{done.stdout[-2000:]}\n{done.stderr[-8000:]}"
    report = json.loads(done.stdout.splitlines()[-1])
    return Report(Path(report["whole"]), [Path(run) for run in report["runs"]], report["n_kills"], report["seconds"])


def fingerprint(checkpoints: Path) -> dict[str, str]:
    """sha256 of every file of tensors of the newest valid checkpoint, under the name of its step."""
    from s2s import checkpoint, durable

    newest = checkpoint.newest(checkpoints).path
    assert newest is not None, f"no valid checkpoint in {checkpoints}"
    return {f"{newest.name}/{file.name}": durable.digest(file) for file in sorted(newest.glob("*.safetensors"))}


def note(folder: Path, step: int, ids: Sequence[int]) -> None:
    """For the target to call before every update: which examples it learns from."""
    line = json.dumps([step, [int(i) for i in ids]]).encode() + b"\n"
    descriptor = os.open(folder / "consumed.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, line)
    os.close(descriptor)


def consumed(folder: Path) -> dict[int, list[int]]:
    """Step -> examples; an update that was lost by a kill and done again must have had the same ones."""
    found: dict[int, list[int]] = {}
    for line in (folder / "consumed.jsonl").read_text().splitlines():
        step, ids = json.loads(line)
        assert found.setdefault(step, ids) == ids, f"step {step} was trained on {found[step]} and on {ids}"
    return found


def _serve(target: str, folder: Path, n_kills: int, seed: int) -> dict[str, Any]:
    """Run in the server: one run undisturbed, then runs that are killed."""
    import torch
    import torch._dynamo  # a second's work, which the first optimizer of every attempt would do again

    torch.set_num_threads(1)
    train, rng = _load(target), random.Random(seed)
    began = time.monotonic()
    _until_done(train, folder / "whole", lambda: None)
    seconds = time.monotonic() - began
    kills, runs = 0, []
    while kills < n_kills:
        runs.append(folder / f"killed-{len(runs)}")
        left = n_kills - kills

        def life(left: list[int] = [left]) -> float | None:  # noqa: B006  counts the kills of this run
            left[0] -= 1
            return rng.uniform(0, 2 * seconds / KILLS_PER_RUN) if left[0] >= 0 else None

        kills += _until_done(train, runs[-1], life)
    return {"whole": str(folder / "whole"), "runs": [str(run) for run in runs], "n_kills": kills, "seconds": seconds}


def _until_done(train: Callable[[Path], object], folder: Path, life: Callable[[], float | None]) -> int:
    """Attempt after attempt, each ended after `life()` seconds if not by itself; how many were killed."""
    folder.mkdir(parents=True, exist_ok=True)
    n_kills = 0
    while True:
        pid = _fork(train, folder)
        code = _wait(pid, life())
        if code == 0:
            return n_kills
        if code != -signal.SIGKILL:
            sys.exit(f"{folder}: exit code {code} after {n_kills} kills")
        n_kills += 1


def _fork(train: Callable[[Path], object], folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.dup2(2, 1)  # what it prints is no report
    try:
        train(folder)
    except BaseException:
        traceback.print_exc()
        os._exit(FAILED)
    os._exit(0)


def _wait(pid: int, life: float | None) -> int:
    """The exit code of a child that is killed if it outlives its time."""
    end = time.monotonic() + life if life is not None else float("inf")
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        time.sleep(0.0005)


def _load(target: str) -> Callable[[Path], object]:
    path, _, name = target.rpartition(":")
    spec = importlib.util.spec_from_file_location("kill_target", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_target"] = module
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(_serve(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
