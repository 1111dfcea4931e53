"""A Slurm array job. The queue itself holds the remaining jobs, so a restarted command finds them again."""

from __future__ import annotations

__all__ = ["SlurmEngine"]

import hashlib
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.io import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s_study import SlurmConfig

POLL = 3.0
"""Seconds between two queries of the queue"""
SCRIPT = """#!/bin/bash
# Submitted by s2s-study: a task of the array for each line of the list.
file=$(sed -n "${{SLURM_ARRAY_TASK_ID}}p" {list})
stopped=
{python} -m s2s_study.job "$file" >>"${{file%.json}}.log" 2>&1 &
job=$!
trap 'stopped=1; kill -USR1 $job' USR1 TERM
wait $job
code=$?
while kill -0 $job 2>/dev/null; do # a signal ends `wait`, not the job
    wait $job
    code=$?
done
if [ -n "$stopped" ] && [ "$code" -ne 0 ]; then # saved; the same command continues
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


class SlurmEngine:
    """Submits one array, with at most `n` tasks at once, and waits until none is left in the queue."""

    def __init__(self, config: SlurmConfig) -> None:
        self.config = config

    def run(self, jobs: Sequence[Path], n: int, ended: Callable[[Path], None]) -> None:
        """Waits for tasks that an earlier command left in the queue, then submits the remaining jobs."""
        folder = jobs[0].parent.absolute()
        name = f"s2s-study-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        left = self._wait(name, list(jobs), ended)
        if not left:
            return
        names, script = folder / "slurm.list", folder / "slurm.sh"
        write_file(names, "".join(f"{path.absolute()}\n" for path in left))
        write_file(script, SCRIPT.format(list=shlex.quote(str(names)), python=shlex.quote(sys.executable)))
        own = [f"--job-name={name}", f"--array=1-{len(left)}%{n}", f"--output={folder}/slurm-%A-%a.log"]
        own += ["--requeue", "--open-mode=append", f"--signal=B:USR1@{self.config.notice}"]
        _call("sbatch", *own, *self.config.sbatch, str(script))
        for path in self._wait(name, left, ended):
            ended(path)

    def _wait(self, name: str, jobs: list[Path], ended: Callable[[Path], None]) -> list[Path]:
        """Wait until no job of this name is queued; the jobs without a result."""
        while True:
            queued = _call("squeue", "--noheader", "--me", f"--name={name}", "--format=%i").strip()
            for path in [path for path in jobs if _has_result(path)]:
                jobs.remove(path)
                ended(path)
            if not queued:
                return jobs
            time.sleep(POLL)


def _has_result(path: Path) -> bool:
    return path.with_suffix(".result.json").is_file()


def _call(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ConfigError(
            f"engine=slurm: there is no {command[0]} here; run s2s-study where jobs are submitted"
        ) from None
    if done.returncode:
        raise ConfigError(f"engine=slurm: {command[0]}: {' '.join(done.stderr.split())}")
    return done.stdout
