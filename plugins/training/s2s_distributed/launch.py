"""train.devices: one process for each device of this machine, started by the command itself.

Each process writes its exit status to an error file; the launcher prints the root cause once and exits with its code.
Processes that were killed, or that hung, are restarted and continue from the last checkpoint.
"""

from __future__ import annotations

__all__ = ["launch", "n_processes"]

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.backend import device_of, usable_cores
from s2s.distributed import pick_device
from s2s.io import ExitStatus
from s2s_distributed.local_ranks import LocalRanks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_distributed import DistributedConfig

STOP_CODES = EXIT_PREEMPTED, EXIT_INTERRUPTED = 75, 130


def n_processes(config: DistributedConfig) -> int:
    """The number of processes on this machine, from train.devices."""
    if config.devices != "auto":
        return int(config.devices)
    return device_of(pick_device(config.device, "train.device")).count()


def launch(module: str, argv: Sequence[str], config: DistributedConfig, n: int) -> int:
    """Run `python -m module argv` in `n` processes until all are done; the exit code of the command."""
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // n)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # otherwise a lost peer logs a page of C++ frames
    command = ["-m", module, *argv]
    for attempt in range(config.restarts + 1):
        with tempfile.TemporaryDirectory() as directory:
            code, retry = _run(command, n, int(config.timeout), Path(directory))
        if not retry or attempt == config.restarts:
            return code
        print(f"warning: starting again ({attempt + 1} of {config.restarts})", file=sys.stderr, flush=True)
    raise AssertionError("the last attempt returns")


def _run(command: Sequence[str], n: int, shutdown_seconds: int, private: Path) -> tuple[int, bool]:
    """Start the processes and wait for them; the exit code, and whether to restart."""
    ranks = LocalRanks(command, n, private, shutdown_seconds)
    with ExitStatus.in_files(private):
        codes = ranks.run()
    statuses = ExitStatus.read_files(private)
    if ranks.received and codes:
        stopped = [status for status in statuses if status.code in STOP_CODES]
        interrupted = ranks.received[0] == signal.SIGINT
        return _report_first(stopped, EXIT_INTERRUPTED if interrupted else EXIT_PREEMPTED), False
    return _report_cause(codes, statuses) if codes else (0, False)


def _report_cause(codes: dict[int, int], statuses: Sequence[ExitStatus]) -> tuple[int, bool]:
    """Print the root cause once; the exit code, and whether to restart: after a kill or a hang, not after an error.

    codes: exit code of each failed rank. When one rank fails, the others get SIGTERM: their statuses are only effects.
    """
    stopped = [status for status in statuses if status.code in STOP_CODES]
    errors = [status for status in statuses if status.cause == "self" and status not in stopped]
    hung = [status for status in statuses if status.cause == "hang"]
    killed = {rank: signal.Signals(-code) for rank, code in codes.items() if code < 0 and -code != signal.SIGTERM}
    if errors or hung:
        return _report_first(errors or hung, 1), not errors
    if killed:
        who = ", ".join(f"rank {rank} was ended by {number.name}" for rank, number in killed.items())
        hint = " (by the system, if memory was short)" if signal.SIGKILL in killed.values() else ""
        return ExitStatus.report(
            "s2s-train", f"error: {who}{hint}; the same command continues from the last checkpoint", 1
        ), True
    return _report_first(stopped or statuses, 1), False


def _report_first(statuses: Sequence[ExitStatus], code: int) -> int:
    """Print the oldest status and return its code; `code` if no rank wrote one."""
    if not statuses:
        return code
    first = statuses[0]
    on_all_ranks = len({status.message for status in statuses}) == 1 and len(statuses) > 1
    where = "" if on_all_ranks or first.rank == 0 or first.code != 1 else f" (rank {first.rank})"
    return ExitStatus.report("s2s-train", first.message + where, first.code)
