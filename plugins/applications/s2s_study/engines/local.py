"""Processes on this machine."""

from __future__ import annotations

__all__ = ["LocalEngine", "may_go_on"]

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from s2s.backend import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s_study import LocalConfig

SAVED, INTERRUPTED = 75, 130


def may_go_on(code: int) -> bool:
    """Whether a job with this exit code is restarted: killed by a signal, or saved and stopped; not after Ctrl-C."""
    return code == SAVED or (not 0 <= code <= 128 and code != INTERRUPTED)


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
        command = [sys.executable, "-m", "s2s_study.job", str(path)]
        for _ in range(self.attempts):
            with path.with_suffix(".log").open("ab") as log:
                done = subprocess.run(command, env=env, stdout=log, stderr=log, check=False)
            if not may_go_on(done.returncode):
                return
