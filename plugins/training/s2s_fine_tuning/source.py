"""The run, or published model, that train.init_from names, and whether its training text is still there."""

from __future__ import annotations

__all__ = ["find_source", "is_published", "replay_obstacle"]

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from s2s import CheckpointError, ConfigError, UserError
from s2s.run import find_model, find_run

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Plugins


def find_source(source: str, plugins: Plugins) -> tuple[Path, str]:
    """The directory and checkpoint of RUN or RUN@CHECKPOINT; an existing run with @ in its name takes precedence, and
    any run here over a model of the hub."""
    run, at, checkpoint_name = source.rpartition("@") if "@" in source else (source, "", "auto")
    if "last" in (source, run):
        raise ConfigError(f"train.init_from={source}: name the run, since run=last means this one once it has begun")
    for name, checkpoint in ((source, "auto"), (run, checkpoint_name)):
        with suppress(CheckpointError):  # before the hub is asked, whose revisions stand behind @, too
            return find_run(name, "train.init_from"), checkpoint
    if at and ("/" not in run or os.path.lexists(run)):
        return find_model(run, plugins, "train.init_from"), checkpoint_name
    return find_model(source, plugins, "train.init_from"), "auto"


def is_published(directory: Path) -> bool:
    """Whether a run was imported: it then records which model it was made of, and not how that was trained."""
    return (directory / "published.json").is_file()


def replay_obstacle(directory: Path, prepared: str, plugins: Plugins) -> str:
    """Why the training text of a run cannot be mixed in; empty if it can. prepared: data.prepared of the new run."""
    if is_published(directory):
        return "the text of a published model is not here"
    from s2s.run import training_data  # torch

    try:
        training_data(directory, prepared, plugins)
    except UserError as error:
        return str(error)
    return ""
