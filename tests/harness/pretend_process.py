"""A run in a process of its own: `python -m harness.pretend_process FOLDER DEVICE ["no float64"]`.

Trains and decodes in FOLDER, which has a corpus and inputs. Prints as JSON what the host read from the device of
`pretend_device`, by (modules, place), in training and in decoding, and the number of decoding steps.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from harness.pretend_device import NAME, State
from harness.tiny_runs import SMALL
from s2s.cli import generate, train
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN = f"plugins=[{Path(__file__).with_name('pretend_plugin.py')}]"
N_UPDATES = 4
OPTIONS = [
    *("optim=sgd", "schedule=constant", "schedule.lr=0.5", "schedule.warmup=1", "arch.dropout=0", "train.tokens=100"),
    *("task.valid=[a.en,a.de]", "valid.every=2", "valid.sentences=3", f"train.steps={N_UPDATES}", "run=x", "--quiet"),
]


def main(folder: Path, device: str, *options: str) -> None:
    """Two validations, a checkpoint at the end, and the outputs of a beam search as `out`."""
    os.chdir(folder)
    State.float64 = "no float64" not in options
    n_steps, step = 0, Transformer.step

    def counted(self: Transformer, *arguments: object) -> object:
        nonlocal n_steps
        n_steps += 1
        return step(self, *arguments)  # type: ignore[arg-type]

    plugins = [PLUGIN] if device == NAME else []
    code = train.main([*SMALL, *OPTIONS, *plugins, f"train.device={device}"])
    training = reads()
    Transformer.step = counted  # type: ignore[method-assign, assignment]
    search = ["search.beam=4", "min_len=6", "input=in", "output=out"]
    code = code or generate.main([*plugins, "run=x", f"device={device}", *search])
    counts = {"training": training, "decoding": reads(), "n_updates": N_UPDATES, "n_steps": n_steps}
    print(json.dumps({"code": code, "refused": list(refused()) if plugins else [], **counts}))


def reads() -> list[tuple[str, str, int]]:
    """What was counted since the last call."""
    counts = [(modules, place, n) for (modules, place), n in State.reads.items()]
    State.reads.clear()
    return sorted(counts)


def refused() -> Iterator[str]:
    """Mistakes that the device does not let pass."""
    for mistake, make in {
        "devices": lambda: torch.ones(2, device=NAME) + torch.ones(2),
        "float64": lambda: torch.ones(2, device=NAME).double(),
    }.items():
        try:
            make()
        except (RuntimeError, TypeError):
            yield mistake


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
