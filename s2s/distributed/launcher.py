"""One process for each device of this machine: torchrun's own launcher, started by the command itself.

The processes leave their last words in a folder; the one that matters is said once, and its exit code is the
command's. Processes that were killed, or hung, are started again and continue from the last checkpoint.
"""

from __future__ import annotations

__all__ = ["launch", "n_processes"]

import logging
import os
import signal
import sys
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from s2s.ending import FOLDER, Cause, Ending, read_endings, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.config import TrainConfig

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
"""What is passed on to the processes; torchrun itself knows all but the last"""
STOPPED = EXIT_PREEMPTED, EXIT_INTERRUPTED = 75, 130


def n_processes(config: TrainConfig) -> int:
    """What train.devices means here."""
    if config.devices != "auto":
        return int(config.devices)
    on_gpus = config.device in ("auto", "cuda") and torch.cuda.is_available()
    return torch.cuda.device_count() if on_gpus else 1


def launch(module: str, argv: Sequence[str], config: TrainConfig, n: int) -> int:
    """Run `python -m module argv` in `n` processes until all are done; the exit code of the command."""
    logging.disable(logging.ERROR)  # torch tells of every signal and failure, in many lines
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // n)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a process that ends gives others a page of C++ frames
    command = ["-m", module, *argv]
    for attempt in range(config.restarts + 1):
        with tempfile.TemporaryDirectory() as folder:
            code, again = _once(command, n, int(config.timeout), Path(folder))
        if not again or attempt == config.restarts:
            return code
        print(f"warning: starting again ({attempt + 1} of {config.restarts})", file=sys.stderr, flush=True)
    raise AssertionError("the last attempt returns")


def _once(command: Sequence[str], n: int, patience: int, folder: Path) -> tuple[int, bool]:
    """Start the processes and wait for them; the exit code, and whether to try again."""
    agent = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=n,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        signals_to_handle=SIGNALS,
        shutdown_timeout=patience,  # a save may take long
    )
    try:
        with _told_to_leave_word(folder):
            elastic_launch(agent, sys.executable)(*command)
    except SignalException as stop:
        endings = [ending for ending in read_endings(folder) if ending.code in STOPPED]
        interrupted = stop.sigval == signal.SIGINT
        return _last_word(endings, EXIT_INTERRUPTED if interrupted else EXIT_PREEMPTED), False
    except ChildFailedError as failed:
        codes = {rank: failure.exitcode for rank, failure in failed.failures.items()}
        return _why(codes, read_endings(folder))
    return 0, False


@contextmanager
def _told_to_leave_word(folder: Path) -> Iterator[None]:
    """Processes started in the block inherit where; this one speaks itself."""
    os.environ[FOLDER] = str(folder)
    try:
        yield
    finally:
        del os.environ[FOLDER]


def _why(codes: dict[int, int], endings: Sequence[Ending]) -> tuple[int, bool]:
    """Say why the processes ended, once; the exit code, and whether it was none of their doing.

    Where one fails, torch ends the others with SIGTERM: what they say and how they end is no reason.
    """
    stopped = [ending for ending in endings if ending.code in STOPPED]
    own = [ending for ending in endings if ending.cause == Cause.OWN and ending not in stopped]
    hung = [ending for ending in endings if ending.cause == Cause.HANG]
    killed = {rank: signal.Signals(-code) for rank, code in codes.items() if code < 0 and -code != signal.SIGTERM}
    if own or hung:
        return _last_word(own or hung, 1), not own
    if killed:
        who = ", ".join(f"rank {rank} was ended by {number.name}" for rank, number in killed.items())
        hint = " (by the system, if memory was short)" if signal.SIGKILL in killed.values() else ""
        return say("s2s-train", f"error: {who}{hint}; the same command continues from the last checkpoint", 1), True
    return _last_word(stopped or endings, 1), False


def _last_word(endings: Sequence[Ending], code: int) -> int:
    """Say the oldest; without any, `code` is all that is known."""
    if not endings:
        return code
    first = endings[0]
    everybody = len({ending.message for ending in endings}) == 1 and len(endings) > 1
    where = "" if everybody or first.rank == 0 or first.code != 1 else f" (rank {first.rank})"
    return say("s2s-train", first.message + where, first.code)
