"""data.replay: the training text of another run, mixed into a run's own, so that it forgets less of that."""

from __future__ import annotations

__all__ = ["with_replay"]

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.data.preparation import prepare
from s2s.errors import ConfigError
from s2s.run import Run, find_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s.config import Config
    from s2s.data import MappedCorpus
    from s2s.data.preparation import PreparedData
    from s2s.plugin import Plugins
    from s2s.task import Task, TokenNames
    from s2s.vocab import Side

SIDES: tuple[Side, Side] = ("src", "tgt")


def with_replay(
    prepared: PreparedData, task: Task, config: Config, plugins: Plugins, report: Callable[[str], None]
) -> PreparedData:
    """The prepared data, and those of the run data.replay at weights that make data.replay_share of each epoch.

    Raises ConfigError unless the tokens of that run are the first of this one's.
    """
    share = config.data.replay_share
    if not share:
        return prepared
    directory = find_run(config.data.replay, "data.replay")
    other_config, other_task = Run.load_task(directory, plugins)
    for side in SIDES:
        _check_begins_with(task.vocabulary(side), other_task.vocabulary(side), config)
    other = prepare(other_task, replace(other_config.data, prepared=config.data.prepared), report)
    factor = share / (1 - share) * _n_pairs(prepared.train) / _n_pairs(other.train)
    replayed = [(corpus, weight * factor) for corpus, weight in other.train]
    identity = hashlib.sha256(f"{prepared.identity} {share} {other.identity}".encode()).hexdigest()
    line = f"replay of {directory}: {sum(len(corpus) for corpus, _ in replayed):,} pairs, {share:.0%} of an epoch"
    return replace(prepared, train=[*prepared.train, *replayed], identity=identity, report=[*prepared.report, line])


def _n_pairs(corpora: Sequence[tuple[MappedCorpus, float]]) -> float:
    """Pairs of an epoch."""
    return sum(weight * len(corpus) for corpus, weight in corpora)


def _check_begins_with(
    tokens: Sequence[TokenNames] | None, others: Sequence[TokenNames] | None, config: Config
) -> None:
    if tokens is None or others is None or list(tokens[: len(others)]) != list(others):
        raise ConfigError(
            f"data.replay={config.data.replay}: its vocabulary is not the beginning of this run's; give "
            f"data.tokenizer={config.data.replay}, which train.init_vocab=keep and extend do, or no replay"
        )
