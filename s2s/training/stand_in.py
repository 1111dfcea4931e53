"""A dry run before anything is downloaded: time and memory, measured on made-up text of the same vocabulary size."""

from __future__ import annotations

__all__ = ["dry_run_on_stand_in", "measured_time"]

import random
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.backend.device_types import device_of
from s2s.config.duration import format_duration
from s2s.data.text_task import TextTask
from s2s.io.line_file import write_lines
from s2s.training.build_model import described_size
from s2s.training.trial import time_updates, trial_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.config import Config
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.task import Task
    from s2s.training.trainer import Trainer

N_PAIRS = 12_000
N_WORDS = 25
"""Of a sentence, about as many as in news"""
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
WORDS_PER_TOKEN = 2
"""Different words for each token of a vocabulary, so that it can be learnt from them"""


def dry_run_on_stand_in(config: Config, task: Task, plugins: Plugins, world: World) -> int:
    """Print how long the run would take and what it would need; what is downloaded is not known, hence no epochs."""
    if not isinstance(task, TextTask):
        return 0
    with _stand_in(config, task) as stand_in, trial_run(stand_in, plugins, world) as trainer:
        _, time = measured_time(trainer, config.train.steps, world)
        trainer.log.show_facts([
            ("model", described_size(trainer.train_step.model, config.arch.name)),
            ("device", f"{world.device}, {trainer.config.train.precision}"),
            ("dry run", f"{time}; measured on made-up text, since nothing is downloaded yet"),
        ])  # fmt: skip
    return 0


def measured_time(trainer: Trainer, steps: int, world: World) -> tuple[float, str]:
    """Seconds of an update, and a line on them, on a run of so many, and on memory."""
    seconds = time_updates(trainer).seconds
    memory = device_of(world.device).peak_memory() / 2**30
    duration = format_duration(seconds * steps)
    return seconds, f"{seconds:.3g} s an update, {duration} for {steps:,}, {memory:.1f} GiB so far"


@contextmanager
def _stand_in(config: Config, task: TextTask) -> Iterator[Config]:
    """The configuration with made-up text in place of what it names, prepared in a folder that is removed."""
    with tempfile.TemporaryDirectory() as name:
        folder, draw = Path(name), random.Random(config.seed)
        most = max(size for _, size in task.config.sizes().values())
        words = ["".join(draw.choices(LETTERS, k=draw.randint(3, 9))) for _ in range(WORDS_PER_TOKEN * most)]
        files = [folder / "train.src", folder / "train.tgt"]
        for file in files:
            write_lines(file, (_sentence(words, draw) for _ in range(N_PAIRS)))
        options: dict[str, Any] = {"train": [str(file) for file in files], "valid": None, "test": None, "columns": []}
        changed: Any = replace(task.config, **options)
        data = replace(config.data, prepared=str(folder / "prepared"))
        yield replace(config, task=changed, data=data, valid=replace(config.valid, score=False))


def _sentence(words: list[str], draw: random.Random) -> str:
    return " ".join(draw.choices(words, k=draw.randint(N_WORDS // 2, N_WORDS + N_WORDS // 2)))
