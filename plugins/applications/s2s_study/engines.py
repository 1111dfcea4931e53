"""Where jobs run: processes on this machine, tasks on a Ray cluster, or a Slurm array job."""

from __future__ import annotations

__all__ = ["LocalEngine", "RayEngine", "SlurmEngine", "may_go_on"]

import hashlib
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s.backend import usable_cores
from s2s.io import open_own, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s_study import LocalConfig, RayConfig, SlurmConfig

SAVED, INTERRUPTED = 75, 130


def may_go_on(code: int) -> bool:
    """Whether a job with this exit code is restarted: killed by a signal, or saved and stopped; not after Ctrl-C."""
    return code == SAVED or (not 0 <= code <= 128 and code != INTERRUPTED)


def _run_job(path: Path, **options: Any) -> int:
    """Run a job in a process of its own; the exit code. options: of subprocess.run."""
    command = [sys.executable, "-m", "s2s_study.job", str(path)]
    with open_own(path.with_suffix(".log"), "ab") as log:
        return subprocess.run(command, stdout=log, stderr=log, check=False, **options).returncode


class LocalEngine:
    """At most `n` processes; each gets its share of the cores unless OMP_NUM_THREADS is set."""

    def __init__(self, config: LocalConfig) -> None:
        self.attempts = config.attempts

    def run(self, jobs: Sequence[Path], n: int, ended: Callable[[Path], None]) -> None:
        """Starts the jobs in the order given."""
        threads = str(max(usable_cores() // n, 1))
        env = {"OMP_NUM_THREADS": threads, **os.environ}
        with ThreadPoolExecutor(n) as pool:
            running = {pool.submit(self._job, path, env): path for path in jobs}
            try:
                for future in as_completed(running):
                    future.result()
                    ended(running[future])
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _job(self, path: Path, env: dict[str, str]) -> None:
        for _ in range(self.attempts):
            if not may_go_on(_run_job(path, env=env)):
                return


class StoppedError(Exception):
    """The job was killed, or it saved and stopped."""


def _ray_job(path: str, folder: str) -> int:
    """Run a job on a worker, where a task whose worker or node is lost is restarted elsewhere; the exit code."""
    code = _run_job(Path(path), cwd=folder)
    if may_go_on(code):
        raise StoppedError(f"exit code {code}")
    return code


class RayEngine:
    """At most `n` tasks at once."""

    def __init__(self, config: RayConfig) -> None:
        self.config = config

    def run(self, jobs: Sequence[Path], n: int, ended: Callable[[Path], None]) -> None:
        """Connects, runs all jobs, and disconnects, which ends a cluster of address=local."""
        ray = _ray()
        if not ray.is_initialized():
            try:
                ray.init(address=self.config.address, log_to_driver=False)
            except ConnectionError as error:
                what = "no cluster can be reached; start one with `ray start --head`, or give address=local"
                raise ConfigError(f"engine_options.address={self.config.address}: {what}") from error
        try:
            self._run(ray, jobs, n, ended)
        finally:
            ray.shutdown()

    def _run(self, ray: Any, jobs: Sequence[Path], n: int, ended: Callable[[Path], None]) -> None:
        config = self.config
        options = {"num_cpus": config.cpus, "num_gpus": config.gpus, "max_retries": config.attempts - 1}
        task = ray.remote(_ray_job).options(**options, retry_exceptions=[StoppedError])
        left, running = list(jobs), dict[Any, Path]()
        while left or running:
            while left and len(running) < n:
                path = left.pop(0)
                running[task.remote(str(path.absolute()), str(Path.cwd()))] = path
            done, _ = ray.wait(list(running), num_returns=1)
            ended(running.pop(done[0]))  # successful or not: the job's result shows it


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("engine=ray: Ray is not installed: pip install ray (extra ray)") from None
    return ray


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
    """Submits one array, with at most `n` tasks at once, and waits until none is left in the queue.

    The queue itself holds the remaining jobs, so a restarted command finds them again.
    """

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
            for path in [path for path in jobs if path.with_suffix(".result.json").is_file()]:
                jobs.remove(path)
                ended(path)
            if not queued:
                return jobs
            time.sleep(POLL)


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
