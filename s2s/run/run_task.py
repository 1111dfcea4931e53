"""What reading and writing texts needs of a trained run: all but its weights. No torch at import.

Nothing in the directory of a run can make code run.
"""

from __future__ import annotations

__all__ = ["RunTask", "read_run_config", "with_absent_plugins"]

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from s2s.config import Config
from s2s.data.source_shape import SourceShape
from s2s.errors import CheckpointError, ConfigError, PluginError
from s2s.io.json_files import read_checked
from s2s.run import tokenizer
from s2s.run.environment_record import foreign_plugins
from s2s.run.paths import RESOLVED
from s2s.run.provenance import ConfigForTexts, RunConfig, read_config, read_config_for_texts
from s2s.run.record import matches_checksum
from s2s.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s.plugin import Plugins
    from s2s.registry import Choice

logger = logging.getLogger(__name__)


C = TypeVar("C", bound=Config | ConfigForTexts, covariant=True)


@dataclass(frozen=True)
class RunTask(Generic[C]):
    """A run's configuration, or what texts need of it, and its task with its tokeniser."""

    directory: Path
    config: C
    task: Task

    @staticmethod
    def load(directory: Path, plugins: Plugins) -> RunTask[Config]:
        """Those of the run in `directory`; CheckpointError for another tokeniser than that of its training."""
        config = _config(directory, plugins)
        return RunTask(directory, config, _task(directory, config.task, plugins))

    @staticmethod
    def load_for_texts(directory: Path, plugins: Plugins) -> RunTask[Config | ConfigForTexts]:
        """The same with a `ConfigForTexts` where that is possible, of a run that has been loaded with these plugins."""
        config = read_config_for_texts(directory, plugins) or _config(directory, plugins)
        return RunTask(directory, config, _task(directory, config.task, plugins))

    @property
    def sources(self) -> SourceShape | None:
        """What the sources of its training text were like; None: not measured."""
        return SourceShape.read(_env(self.directory).get("sources"))


def read_run_config(directory: Path, plugins: Plugins) -> RunConfig:
    """The run's configuration; CheckpointError unless plugins of what it chooses by name are installed: a run never
    contains code."""
    try:
        return read_config(directory, plugins)
    except (ConfigError, PluginError) as error:
        message = with_absent_plugins(f"run {directory} cannot be loaded: {error}", [directory], plugins)
        raise CheckpointError(message) from error


def _task(directory: Path, config: Choice, plugins: Plugins) -> Task:
    """The task with the tokeniser of a run."""
    task: Task = plugins.registry.get("task", config.name).build(config)
    _check_same_tokenizer(directory)
    task.load(directory / "tokenizer")
    return task


def _config(directory: Path, plugins: Plugins) -> Config:
    """The run's configuration, with warnings about it."""
    config, notes = read_run_config(directory, plugins)
    if not matches_checksum(directory / RESOLVED):
        logger.warning("%s is not as the run wrote it: edited, or damaged by a disk", directory / RESOLVED)
    for note in notes:
        logger.warning("run %s: %s", directory, note)
    return config


def with_absent_plugins(message: str, runs: Iterable[Path], plugins: Plugins) -> str:
    """An error message, and in a sentence of its own the plugins with which the runs were trained and that are absent.

    `Registry.absent_hint` names those that are blocked or broken.
    """
    known = {*plugins.loaded, *plugins.registry.blocked, *plugins.registry.broken}
    absent = sorted({name for run in runs for name in foreign_plugins(_env(run))} - known)
    if not absent:
        return message
    end = "" if message.endswith((".", "?")) else "."
    advice = "install them, or give plugins=[…] if you trust them"
    return f"{message}{end} It was trained with the plugins {', '.join(absent)}: {advice}"


def _check_same_tokenizer(directory: Path) -> None:
    """Refuse a tokeniser other than the one of training: its ids would mean other tokens."""
    folder = directory / "tokenizer"
    written = tokenizer.recorded_identity(folder)
    if written is None:
        raise CheckpointError(f"run {directory} cannot be loaded: it has no tokeniser in {folder}")
    current, trained = tokenizer.identity(folder), _env(directory).get("tokenizer", written)
    if current != trained:
        raise CheckpointError(
            f"{folder} is not the tokeniser that the model was trained with: its files have the identity "
            f"{current[:12]}, and the run's was {str(trained)[:12]}. Put the files of the run back"
        )


def _env(directory: Path) -> dict[str, Any]:
    try:
        return read_checked(directory / "env.json")
    except (OSError, ValueError):
        return {}
