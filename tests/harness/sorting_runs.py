"""Short training runs of a Transformer with dropout on the sorting task of the example distribution."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from harness.folders import ROOT
from s2s.cli.train import main

if TYPE_CHECKING:
    import random
    import signal
    from collections.abc import Mapping

WATCH = Path(__file__).with_name("watch_plugin.py")
SMALL = [
    "task=sorting", "task.pairs=120", "task.longest=6", "arch=transformer_tiny", "arch.d_model=16", "arch.d_ff=16",
    "arch.n_heads=2", "arch.dropout=0.2", "schedule=constant", "schedule.lr=3e-3", "schedule.warmup=0",
    "train.tokens=120", "train.micro_tokens=60", "valid.sentences=3", "search=greedy", "search.max_len_b=5",
    "log.tensorboard=false", "train.threads=1",
]  # fmt: skip


def train(folder: Path, *arguments: str) -> int:
    """s2s-train in this process, in `folder`/run; its exit code."""
    example = str(ROOT / "examples" / "s2s-example")
    if example not in sys.path:
        sys.path.insert(0, example)
    plugins = f"plugins=[s2s_example,{WATCH}]"
    places = [f"run={folder / 'run'}", f"data.prepared={folder.parent / 'prepared'}"]
    other_model = any(argument.startswith("arch=") for argument in arguments)
    small = [option for option in SMALL if not (other_model and option.startswith("arch"))]
    return main([plugins, *small, *places, *arguments])


def outcome(folder: Path) -> dict[str, Any]:
    """What must be equal for two runs to be the same: all final bytes, and what was learnt from, step by step."""
    run = folder / "run"
    last = max((run / "checkpoints").glob("step-*"))
    mean = run / "checkpoints" / "average" / "model.safetensors"
    files = [*last.glob("*.safetensors"), *([mean] if mean.exists() else [])]
    return {
        "last": last.name,
        "best": (run / "best").resolve().name,
        "hashes": {f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
        "updates": records(run, "update", "step", "epoch", "loss", "nll", "lr", "gnorm", "pairs", "tokens"),
        "valid": records(run, "valid", "step", "nll", "bleu", "best"),
    }


def records(run: Path, kind: str, *keys: str) -> list[list[Any]]:
    """What log.jsonl says under these keys in its records of one kind; None: a record has no such key."""
    said = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [[record.get(key) for key in keys] for record in said if record["kind"] == kind]


def status(folder: Path) -> dict[str, Any]:
    """How the run stands."""
    return json.loads((folder / "run" / "status.json").read_text())


def fork_training(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> int:
    """s2s-train in a forked child, with these environment variables beside the others; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        os.environ.update(env or {})
        torch.set_num_threads(1)  # the parent's threads did not come along
        with (folder.parent / f"{folder.name}.log").open("a", buffering=1) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout = sys.stderr = file  # pytest has put something else there
            code = train(folder, *arguments)
    finally:
        os._exit(code)


def train_in_ranks(
    folder: Path, size: int, *arguments: str, env: Mapping[int, dict[str, str]] | None = None
) -> list[int]:
    """s2s-train in `size` processes that meet as torchrun lets them meet; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    pids = []
    for rank in range(size):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), **((env or {}).get(rank, {}))}
        pids.append(fork_training(folder, *arguments, env={**meeting, **own}))
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def has_ended(pid: int) -> bool:
    """Whether a child has ended; it can still be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def kill_until_done(
    folder: Path, n_kills: int, seconds: float, draw: random.Random, number: signal.Signals, *arguments: str
) -> list[int]:
    """Train, sending a signal at a random moment within `seconds`, until it is done; the exit codes."""
    codes = []
    while not codes or codes[-1] != 0:
        pid = fork_training(folder, *arguments)
        if len(codes) < n_kills:
            end = time.monotonic() + draw.uniform(0, seconds)
            while time.monotonic() < end and not has_ended(pid):
                time.sleep(0.001)
            os.kill(pid, number)  # it is ours until we wait for it, even when it is done
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        assert codes[-1] != 3, (folder.parent / f"{folder.name}.log").read_text()
        assert len(codes) < 100 + n_kills, "never done"
    return codes
