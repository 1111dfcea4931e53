"""train.micro_tokens=auto in a process of its own: `python micro_tokens_process.py FOLDER FREE_BYTES`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from harness.batch_size_process import train_step
from s2s.backend.core_devices import CPU
from s2s.training.batch_plan import BatchPlan
from s2s_plan.memory import MemoryGuard, PeakMemory
from s2s_plan.micro_batch import find_micro_tokens

PAIR = ([5] * 63, [5] * 63)
N_PAIRS = 256


def configured(tokens: int = 64 * N_PAIRS) -> tuple[Any, Any]:
    """A configuration as far as it is asked for, and a small train step."""
    step = train_step()
    step.config.tokens = tokens
    valid, arch = SimpleNamespace(score=False), SimpleNamespace(name="transformer")
    return SimpleNamespace(train=step.config, valid=valid, arch=arch), step


def main(folder: Path, free: int) -> None:
    """Print what was found, whether the weights are unchanged, and the bytes that a batch then takes."""
    CPU.free_memory = lambda _: free  # type: ignore[method-assign]
    config, step = configured()
    weights = [p.detach().clone() for p in step.parameters]
    with PeakMemory(torch.device("cpu")) as before:
        pass
    guard = MemoryGuard()
    micro_tokens, said = find_micro_tokens(config, step, guard, PAIR, folder)
    same = all(torch.equal(p, w) for p, w in zip(step.parameters, weights, strict=True))
    with PeakMemory(torch.device("cpu")) as peak:
        step.trial([PAIR] * N_PAIRS, BatchPlan(config.train.n_tokens, micro_tokens, guard.check))
    print(json.dumps([said, micro_tokens, same, peak.bytes - before.bytes]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
