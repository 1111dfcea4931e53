"""Stages of training: a run that starts from the weights of another run, and frozen parameters.

train.init_from, train.init_map and train.freeze; no torch at import.
"""

from __future__ import annotations

__all__ = ["s2s_prepare_model"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Plugins, Seq2Seq, Task
    from s2s.config import Config
    from s2s.distributed import World


@hookimpl
def s2s_prepare_model(
    model: Seq2Seq, config: Config, task: Task, directory: Path, world: World, plugins: Plugins
) -> list[tuple[str, str]]:
    """Load the weights of another run, unless this one has a checkpoint of its own; then freeze parameters."""
    from s2s.checkpoint import latest
    from s2s_fine_tuning.freeze import freeze
    from s2s_fine_tuning.init_from import init_from

    begins = config.train.init_from is not None and latest(directory / "checkpoints").path is None
    taken = init_from(model, config, task, directory / "tokenizer", plugins, world) if begins else []
    frozen = freeze(model, config.train.freeze)
    return [*(("init", line) for line in taken), *(("frozen", line) for line in frozen)]
