"""A trained run, loaded from its directory; nothing in the directory can make code run."""

from __future__ import annotations

__all__ = ["Run"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from s2s.backend.linear import Int8Multipliers
from s2s.checkpoint import directory as checkpoint
from s2s.checkpoint.weights import evaluated_weights, load_weights, size_limit
from s2s.config import Config
from s2s.data.source_shape import SourceShape
from s2s.decoding.shortlist import Shortlist
from s2s.model import Seq2Seq
from s2s.run.checkpoint_choice import chosen_checkpoint
from s2s.run.origin import Origin
from s2s.run.run_task import RunTask
from s2s.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from s2s.plugin import Plugins

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
        of_run = RunTask.load(directory, plugins)
        config, task = of_run.config, of_run.task
        path, weights, passed_over = _read_weights(directory, checkpoint)
        with size_limit(weights, path):
            model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
        load_weights(model, weights, path)
        recorded = _recorded(path)
        int8 = _int8(model, recorded.get(INT8, {}))
        shortlist = Shortlist.of(recorded[SHORTLIST], task.vocab.tgt) if SHORTLIST in recorded else None
        if device.type != "cpu":  # it is there already; `to` imports what decoding a line of text does not need, 0.4 s
            model.to(device)
        return cls(config, task, model.eval(), path, of_run.sources, int8, shortlist, tuple(passed_over))

    @staticmethod
    def load_task(directory: Path, plugins: Plugins) -> tuple[Config, Task]:
        """A run's configuration, and its task with its tokeniser."""
        loaded = RunTask.load(directory, plugins)
        return loaded.config, loaded.task

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

    def read(path: Path) -> tuple[dict[str, Any], Callable[[], dict[str, Tensor]]]:
        saved = checkpoint.load(path, only=WEIGHTS)
        return saved.state, partial(evaluated_weights, saved)

    return chosen_checkpoint(directory, name, read)
