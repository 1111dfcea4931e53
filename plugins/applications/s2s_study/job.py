"""`python -m s2s_study.job FILE`: one job, in a process of its own; run again, it continues, or has nothing to do.

Exit code 75 means saved: start it again. Any other nonzero code is that of the command that failed.
"""

from __future__ import annotations

__all__ = ["main", "run_job"]

import fcntl
import json
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from s2s import UserError
from s2s.io import end_with_parent, open_own, write_file, write_manifest
from s2s_study.job_spec import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSED_ON = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
"""Signals on which s2s-train saves"""


def run_job(path: Path) -> int:
    """Train, decode, score, and write the result; the exit code."""
    with open_own(path.with_suffix(".lock"), "w") as lock:
        wait_for(lock)
        return run_locked(path, lock)


def wait_for(lock: IO[str]) -> None:
    """Wait until an earlier process of this job, and the training that it started, has saved and ended."""
    with suppress(OSError):  # a file system without locks; s2s-train has a lock of its own
        fcntl.flock(lock, fcntl.LOCK_EX)


def run_locked(path: Path, lock: IO[str]) -> int:
    """`run_job` while holding the job's lock."""
    job = Job.read(path)
    if job.result(path.parent) is not None:
        return 0
    if job.commands:
        return run_and_score(path, job, lock)
    if job.train:
        code = call([sys.executable, "-m", "s2s.cli.train", *job.train, "log.tensorboard=false", "--quiet"], lock)
        if code:
            return code
    from s2s_study.evaluation import evaluate  # torch

    write_result(path, job, *evaluate(job))
    return 0


def run_and_score(path: Path, job: Job, lock: IO[str]) -> int:
    """Run and score a job of commands; the exit code."""
    from s2s_study.commands import evaluate_commands, run_commands

    code = run_commands(job, lambda command: call(command, lock))
    if not code:
        write_result(path, job, *evaluate_commands(job))
    return code


def write_result(path: Path, job: Job, outputs: dict[str, list[str]], result: dict[str, Any]) -> None:
    """Write the outputs and the result next to the job's file."""
    outputs_path = job.outputs_path(path.parent)
    if outputs:
        write_file(outputs_path, json.dumps(outputs, ensure_ascii=False))
    result = {"identity": job.identity, "row": job.row, "seed": job.seed, **result}
    write_manifest(job.result_path(path.parent), result, [outputs_path.name] if outputs else [])


def call(command: list[str], lock: IO[str]) -> int:
    """Run a command; its exit code. Our signals are passed on to it, and it gets SIGTERM if we are killed.

    It inherits the lock, so that the job stays locked until both processes have ended.
    """
    process = subprocess.Popen(command, pass_fds=(lock.fileno(),), preexec_fn=partial(end_with_parent, signal.SIGTERM))
    with process, _passing_on(process):
        return process.wait()


@contextmanager
def _passing_on(process: subprocess.Popen[Any]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda n, _: process.send_signal(n)) for number in PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(argv: list[str] | None = None) -> int:
    """The command; its last line, in the job's log, says why it has failed."""
    end_with_parent(signal.SIGTERM)
    (path,) = sys.argv[1:] if argv is None else argv
    try:
        return run_job(Path(path))
    except UserError as error:
        print(f"s2s_study.job: error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
