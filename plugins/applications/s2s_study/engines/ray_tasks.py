"""Tasks on a Ray cluster. A task whose worker or node is lost is restarted elsewhere and continues the run."""

from __future__ import annotations

__all__ = ["RayEngine"]

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s_study.engines.local import may_go_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s_study import RayConfig


class StoppedError(Exception):
    """The job was killed, or it saved and stopped."""


def _job(path: str, folder: str) -> int:
    """Run a job on a worker; the exit code."""
    command = [sys.executable, "-m", "s2s_study.job", path]
    with Path(path).with_suffix(".log").open("ab") as log:
        code = subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=False).returncode
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
        task = ray.remote(_job).options(**options, retry_exceptions=[StoppedError])
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
        raise ConfigError("engine=ray: Ray is not installed; pip install s2s-toolkit[ray]") from None
    return ray
