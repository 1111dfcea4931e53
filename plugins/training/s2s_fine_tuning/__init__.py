"""Stages of training: a run that starts from the weights of another run, and frozen parameters.

train.init_from, train.init_map and train.freeze; no torch at import.
"""

from __future__ import annotations

__all__ = ["FineTuningOptions", "s2s_plan", "s2s_prepare_model", "s2s_register", "s2s_settings"]

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, cast

from s2s import ConfigError, Registry, hookimpl
from s2s.config import Mark, Range, TrainConfig, check_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s import Plugins, Seq2Seq, Task
    from s2s.compose import Setting
    from s2s.config import Config
    from s2s.distributed import World


@dataclass(kw_only=True)
class FineTuningOptions(TrainConfig):
    """Weights to start from, and weights that stay as they are."""

    init_from: str | None = field(default=None, metadata=Mark.AT_START)
    """Run whose weights this one begins with, or RUN@CHECKPOINT (best, last, average, step-001000), or a published
    model. Options of task, model, optimizer and search that are not given are that run's; the learning rate is low.
    Where vocabularies differ, rows of embeddings and of the output projection follow their tokens."""
    init_vocab: Literal["keep", "extend", "new"] = field(default="keep", metadata=Mark.AT_START)
    """Vocabulary of a run that starts from another one: keep that one's, extend it by at most data.new_tokens tokens
    of the training text, or learn a new one. Another task always learns one."""
    init_replay: float | str = field(default="auto", metadata=Mark.AT_START | Mark.NEUTRAL)
    """Share of the pairs of an epoch that come from the training text of the run in init_from, so that the new run
    forgets less of it. auto: 0.8, if the new run has other text and that one is still there, unchanged; less where its
    pairs would be repeated within an epoch. Else 0, and train.init_weight=0.65. data.replay has what was chosen."""
    init_map: dict[str, str | None] = field(default_factory=dict, metadata=Mark.AT_START)
    """Where train.init_from finds a tensor: regular expression on the names of this model's tensors -> the name there,
    with \\1 for the first group; null keeps it as initialised. The first expression found in a name is used."""
    freeze: list[str] = field(default_factory=list)
    """Regular expressions, such as ^encoder or norm: parameters in whose names one is found are not trained."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("train", self, init_replay=Range(0, 0.99))
        share = self.init_replay if self.init_replay != "auto" else 0
        asked = {"init_vocab": self.init_vocab != "keep", "init_replay": share, "init_weight": self.init_weight}
        if self.init_from is None and any(asked.values()):
            option = next(name for name, is_given in asked.items() if is_given)
            raise ConfigError(f"train.{option} says what to take of another run; give train.init_from=RUN, too")
        if share and self.init_vocab == "new":
            raise ConfigError("train.init_replay needs the old vocabulary; leave out train.init_vocab=new")
        for option, patterns in (("init_map", self.init_map), ("freeze", self.freeze)):
            for pattern in patterns:
                _check_expression(f"train.{option}", pattern)


def _check_expression(option: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{option}: {pattern!r} is no regular expression: {error}") from None


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(FineTuningOptions)


@hookimpl(tryfirst=True)
def s2s_plan(config: Config) -> None:
    """Raise ConfigError for a map without a run: not in the options, as an architecture may bring one by default."""
    options = config.train
    if not isinstance(options, FineTuningOptions):  # of a test, or of a program that asks for no plugin's options
        return
    if options.init_from is None and any(name is not None for name in options.init_map.values()):
        raise ConfigError(
            f"train.init_map, given or the default of arch={config.arch.name}, says what to take of another run; "
            "give train.init_from=RUN, too"
        )


@hookimpl
def s2s_settings(settings: Sequence[Setting], schema: type, plugins: Plugins) -> Sequence[Setting]:
    """The options of the run in train.init_from, as far as `settings` leave them open."""
    if "train" not in {item.name for item in fields(schema)} or not any(map(_names_a_run, settings)):
        return ()
    from s2s_fine_tuning.inherit import inherited

    return inherited(settings, plugins)


def _names_a_run(setting: Setting) -> bool:
    in_section = isinstance(setting.value, Mapping) and "init_from" in setting.value
    return setting.key == ("train", "init_from") or (setting.key == ("train",) and in_section)


def _why_weights(options: FineTuningOptions, config: Config, plugins: Plugins) -> str:
    """A line for the first screen about train.init_weight."""
    from s2s_fine_tuning.source import find_source, replay_obstacle

    assert options.init_from is not None
    directory, _ = find_source(options.init_from, plugins)
    is_asked = config.data.replay or options.init_replay != "auto"
    reason = "" if is_asked else replay_obstacle(directory, config.data.prepared, plugins)
    why = f", since its text cannot be mixed in: {reason}" if reason else ""
    return f"the result will have {options.init_weight:.0%} of its weights (train.init_weight){why}"


def _keep_origin(source: str, directory: Path, plugins: Plugins, world: World) -> list[str]:
    """The record, licence and card of the published model that this run starts from, in this run, too."""
    from s2s.run import Run
    from s2s_fine_tuning.source import find_source

    found, _ = find_source(source, plugins)
    origin = Run.read_origin(found)
    if origin is None:
        return []
    if world.rank == 0:
        origin.tuned().write(directory, [found / name for name in origin.kept])
    return [str(origin)]


@hookimpl
def s2s_prepare_model(
    model: Seq2Seq, config: Config, task: Task, directory: Path, world: World, plugins: Plugins
) -> list[tuple[str, str]]:
    """Load the weights of another run, unless this one has a checkpoint of its own; then freeze parameters."""
    from s2s.checkpoint import latest
    from s2s_fine_tuning.freeze import freeze
    from s2s_fine_tuning.init_from import init_from

    options = cast("FineTuningOptions", config.train)
    begins = options.init_from is not None and latest(directory / "checkpoints").path is None
    loaded = init_from(model, config, task, directory / "tokenizer", plugins, world) if begins else []
    if begins and options.init_from is not None:
        loaded += _keep_origin(options.init_from, directory, plugins, world)
    if begins and options.init_weight:
        loaded.append(_why_weights(options, config, plugins))
    frozen = freeze(model, options.freeze)
    return [*(("init", line) for line in loaded), *(("frozen", line) for line in frozen)]
