"""Trained runs as models of other programs: which formats there are, and how architectures are expressed in them.

The core knows no architecture by name. A plugin says of its own what the weights mean (group `neutral`), and a format
writes that down, or refuses what it cannot say (group `export`).
"""

from __future__ import annotations

__all__ = ["Exported", "Format", "Unwritten", "s2s_register"]

from typing import TYPE_CHECKING, NamedTuple, Protocol

from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.data.subword import Subwords
    from s2s.export.neutral import Weights
    from s2s.task import Task, Vocab


class Unwritten(NamedTuple):
    """What a format is given to write."""

    weights: Weights
    vocab: Vocab
    subwords: tuple[Subwords, Subwords] | None
    """Of source and target, where the task's symbols are such"""


class Exported(Protocol):
    """A written model, as the other program loads and runs it: what the check compares with ours."""

    def greedy(self, sources: Sequence[list[int]], n: int) -> list[list[int]]:
        """The most probable symbol at every step, until eos or `n` are there: ids without eos, in and out."""
        ...

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Of each symbol of given targets, and last of eos."""
        ...

    def refuse_other_ids(self, task: Task, lines: Sequence[str]) -> None:
        """An error where the format has a tokeniser of its own that gives other ids than the task."""
        ...


class Format(Protocol):
    """A format, as the factory of its entry makes it."""

    def write(self, model: Unwritten, folder: Path) -> None:
        """Fill an empty folder; ConfigError, with the reason, for what the format cannot express."""
        ...

    def read(self, folder: Path) -> Exported:
        """What was written, loaded by the other program."""
        ...


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.group("neutral", "what weights mean: factory(arch config, model) -> s2s.export.neutral.Weights")
    registry.group("export", "a format of s2s-export: factory(config) -> s2s.export.Format")
    registry.add("export", "ctranslate2", Choice, "s2s.export.ctranslate2:CTranslate2")
    registry.add("export", "hf", Choice, "s2s.export.marian:Marian")
