"""The run, or published model, that train.init_from names."""

from __future__ import annotations

__all__ = ["find_source"]

from typing import TYPE_CHECKING

from s2s import CheckpointError, ConfigError
from s2s.run import find_model

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Plugins


def find_source(source: str, plugins: Plugins) -> tuple[Path, str]:
    """The directory and checkpoint of RUN or RUN@CHECKPOINT; an existing run with @ in its name takes precedence."""
    run, at, checkpoint_name = source.rpartition("@")
    if "last" in (source, run):
        raise ConfigError(f"train.init_from={source}: name the run, since run=last means this one once it has begun")
    if not at:
        return find_model(source, plugins, "train.init_from"), "auto"
    try:
        return find_model(source, plugins, "train.init_from"), "auto"
    except CheckpointError:
        return find_model(run, plugins, "train.init_from"), checkpoint_name
