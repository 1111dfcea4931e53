"""What a run was trained on: its own corpora, and those of the run that it replays (data.replay)."""

from __future__ import annotations

__all__ = ["training_data", "with_replay"]

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.data.preparation import prepare
from s2s.data.preparation_spec import PreparationSpec
from s2s.errors import ConfigError, DataError
from s2s.io.json_files import read_checked
from s2s.run.paths import find_run
from s2s.run.trained_run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from s2s.config import Config
    from s2s.config.data import DataConfig
    from s2s.data.prepared_data import PreparedData
    from s2s.plugin import Plugins
    from s2s.task import Task, TokenNames
    from s2s.vocab import Side

SIDES: tuple[Side, Side] = ("src", "tgt")


def with_replay(
    data: PreparedData, task: Task, config: Config, plugins: Plugins, report: Callable[[str], None]
) -> PreparedData:
    """The prepared data, and those of the run data.replay at weights that make data.replay_share of each epoch.

    Raises ConfigError unless the tokens of that run are the first of this one's, DataError if its text is not there.
    """
    share = config.data.replay_share
    if not share:
        return data
    directory = find_run(config.data.replay, "data.replay")
    for side in SIDES:
        _check_begins_with(task.vocabulary(side), Run.load_task(directory, plugins)[1].vocabulary(side), config)
    other = training_data(directory, config.data.prepared, plugins, report)
    factor = share / (1 - share) * data.epoch_pairs / other.epoch_pairs
    replayed = [(corpus, weight * factor) for corpus, weight in other.train]
    identity = hashlib.sha256(f"{data.identity} {share} {other.identity}".encode()).hexdigest()
    line = f"replay of {directory}: {sum(len(corpus) for corpus, _ in replayed):,} pairs, {share:.0%} of an epoch"
    return replace(data, train=[*data.train, *replayed], identity=identity, report=[*data.report, line])


def training_data(
    directory: Path, prepared: str, plugins: Plugins, report: Callable[[str], None] = lambda _: None
) -> PreparedData:
    """The data that the run in `directory` was trained on, with what it replayed.

    prepared: folder in which they are prepared again if what the run had prepared is gone. Raises DataError, or another
    UserError, if a file is gone or has changed since.
    """
    config, task = Run.load_task(directory, plugins)
    identity = _recorded_identity(directory)
    settings = _settings(directory, config.data, task, prepared)
    data = with_replay(
        prepare(task, settings, report, verify=False, registry=plugins.registry), task, config, plugins, report
    )
    if identity != data.identity:
        raise DataError(f"its training text has changed since {directory} was trained")
    return data


def _recorded_identity(directory: Path) -> str:
    """The identity of a run's training data; DataError if there is none, as of a model that was imported."""
    try:
        return str(read_checked(directory / "env.json")["data"])
    except (OSError, ValueError, KeyError):
        raise DataError(f"{directory} does not record what it was trained on") from None


def _settings(directory: Path, config: DataConfig, task: Task, prepared: str) -> DataConfig:
    """Options with which a run's data are found as they were prepared, or prepared again with its tokeniser."""
    spec = PreparationSpec(task, config)
    try:
        inputs = spec.recorded_inputs()
    except DataError:
        return replace(config, prepared=prepared, tokenizer=str(directory), new_tokens=0)
    for file in filter(lambda file: file.exists(), spec.files):
        if str(file) not in inputs or not inputs[str(file)].has_contents(file):
            raise DataError(f"{file} has changed since {directory} was trained")
    return config


def _check_begins_with(
    tokens: Sequence[TokenNames] | None, others: Sequence[TokenNames] | None, config: Config
) -> None:
    if tokens is None or others is None or list(tokens[: len(others)]) != list(others):
        raise ConfigError(
            f"data.replay={config.data.replay}: its vocabulary is not the beginning of this run's; give "
            f"data.tokenizer={config.data.replay}, which train.init_vocab=keep and extend do, or no replay"
        )
