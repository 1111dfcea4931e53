"""A trained run, loaded from its directory; nothing in the directory can make code run."""

from __future__ import annotations

__all__ = ["Run", "with_absent_plugins"]

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from s2s.backend.linear import Int8Multipliers
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.directory import WORSE
from s2s.checkpoint.weights import evaluated_weights, load_weights, size_limit
from s2s.config import Config
from s2s.data.source_shape import SourceShape
from s2s.decoding.shortlist import Shortlist
from s2s.errors import CheckpointError, ConfigError, PluginError
from s2s.io import atomic
from s2s.io.json_files import read_checked, read_json
from s2s.model import Seq2Seq
from s2s.run import tokenizer
from s2s.run.environment import foreign_plugins
from s2s.run.origin import Origin
from s2s.run.paths import RESOLVED, candidates
from s2s.run.provenance import read_config
from s2s.run.record import matches_checksum
from s2s.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

    from s2s.checkpoint.directory import Checkpoint
    from s2s.plugin import Plugins

logger = logging.getLogger(__name__)
WEIGHTS = ("model", "ema")
INT8 = "int8"
"""The group of tensors [2, O] in a checkpoint, by the names of weights [O, I]: `Int8Multipliers`"""
SHORTLIST = "shortlist"
"""The group of the tensors of a `Shortlist`"""


@dataclass(frozen=True)
class Run:
    """A trained run, loaded."""

    config: Config
    task: Task
    model: Seq2Seq
    """On its device, in evaluation mode"""
    checkpoint_path: Path
    sources: SourceShape | None = None
    """What the sources of its training text were like; None: not measured"""
    int8: Mapping[Tensor, Int8Multipliers] = field(default_factory=dict)
    """Of weights that were published in 8-bit integers"""
    shortlist: Shortlist | None = None
    """Of a published model that has one"""
    passed_over: tuple[str, ...] = ()
    """Why the checkpoints that `checkpoint` rather means were not taken"""

    @classmethod
    def load(cls, directory: Path, checkpoint: str, plugins: Plugins, device: torch.device) -> Run:
        """Load a run's configuration, tokeniser and weights.

        checkpoint: auto (the average unless it validated worse than the best, else the best, else the newest that is
        valid), average, best, last, or the name or path of one.
        """
        config, task = cls.load_task(directory, plugins)
        path, weights, passed_over = _read_weights(directory, checkpoint)
        with size_limit(weights, path):
            model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
        load_weights(model, weights, path)
        recorded = _recorded(path)
        int8 = _int8(model, recorded.get(INT8, {}))
        shortlist = Shortlist.of(recorded[SHORTLIST], task.vocab.tgt) if SHORTLIST in recorded else None
        if device.type != "cpu":  # it is there already; `to` imports what decoding a line of text does not need, 0.4 s
            model.to(device)
        sources = SourceShape.read(_env(directory).get("sources"))
        return cls(config, task, model.eval(), path, sources, int8, shortlist, tuple(passed_over))

    @staticmethod
    def load_task(directory: Path, plugins: Plugins) -> tuple[Config, Task]:
        """A run's configuration, and its task with its tokeniser."""
        config = _config(directory, plugins)
        task: Task = plugins.registry.get("task", config.task.name).build(config.task)
        _check_same_tokenizer(directory)
        task.load(directory / "tokenizer")
        return config, task

    @staticmethod
    def read_origin(directory: Path) -> Origin | None:
        """The published model that a run was made of, or tuned from; None if there is none."""
        return Origin.read(directory)

    @staticmethod
    def read_weights(directory: Path, name: str) -> tuple[Path, dict[str, Tensor]]:
        """The first valid checkpoint that `name` may mean and its evaluated weights; logs why others were skipped."""
        return _read_weights(directory, name)[:2]


def _recorded(path: Path) -> dict[str, dict[str, Tensor]]:
    """What a checkpoint has of a published model besides its weights."""
    return checkpoint.load(path, only=[INT8, SHORTLIST]).tensors


def _int8(model: Seq2Seq, recorded: Mapping[str, Tensor]) -> dict[Tensor, Int8Multipliers]:
    """The recorded multipliers of a checkpoint, by the parameters that they belong to."""
    parameters = dict(model.named_parameters())
    return {parameters[name]: Int8Multipliers(*both) for name, both in recorded.items() if name in parameters}


def _read_weights(directory: Path, name: str) -> tuple[Path, dict[str, Tensor], list[str]]:
    """See `Run.read_weights`; and why others were skipped."""
    reasons = []
    for path in candidates(directory, name):
        try:
            saved = checkpoint.load(path, only=WEIGHTS)
            if name == "auto" and saved.state.get(WORSE) is True:
                continue  # as the last lines of its training have shown
            if name == "auto":
                _check_earlier_average(saved)
            weights = evaluated_weights(saved)
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        reasons = [*_missing_best(directory, name, path), *reasons]
        for reason in reasons:
            logger.warning("checkpoint passed over: %s", reason)
        return path, weights, reasons
    what = "; ".join(reasons) or "none was saved yet"
    raise CheckpointError(f"run {directory} has no valid checkpoint for checkpoint={name}: {what}")


def _check_earlier_average(saved: Checkpoint) -> None:
    """Raise CheckpointError for an average that was written before the run continued; its state has the step."""
    trainer, newest = saved.state.get("trainer"), checkpoint.steps(saved.path.parent)[-1:]
    then = trainer.get("step") if isinstance(trainer, dict) else None
    if saved.path.name != "average" or not newest or not isinstance(then, int):
        return
    if int(newest[0].name.removeprefix("step-")) > then:
        raise CheckpointError(
            f"{saved.path} was written after update {then:,}, and the run has continued since, up to "
            f"{newest[0].name}; to use it all the same, give checkpoint=average"
        )


def _missing_best(directory: Path, name: str, taken: Path) -> Iterator[str]:
    """Reports that the best checkpoint, which checkpoint=auto would have taken, is gone."""
    link = directory / "best"
    if name != "auto" or taken.name == "average" or link.is_dir():
        return
    target = atomic.read_link(link)
    newest = checkpoint.steps(directory / "checkpoints")[-1:]
    best = target.name if target else next(filter(None, map(_best_step, newest)), "")
    if best and best != taken.name:
        yield f"{link} leads nowhere; it was {best}. Taken instead: {taken}"


def _best_step(path: Path) -> str:
    """The name of the best checkpoint when `path` was saved; "" if there was none, or it cannot be read."""
    try:
        return checkpoint.step_name(int(read_json(path / "state.json")["trainer"]["best"][0][1]))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return ""


def _config(directory: Path, plugins: Plugins) -> Config:
    """The run's configuration; plugins of what it chooses by name must be installed: a run never contains code."""
    try:
        config, notes = read_config(directory, plugins)
        if not matches_checksum(directory / RESOLVED):
            logger.warning("%s is not as the run wrote it: edited, or damaged by a disk", directory / RESOLVED)
        for note in notes:
            logger.warning("run %s: %s", directory, note)
        return config
    except (ConfigError, PluginError) as error:
        message = with_absent_plugins(f"run {directory} cannot be loaded: {error}", [directory], plugins)
        raise CheckpointError(message) from error


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
