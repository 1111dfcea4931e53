"""Constituency parsing, as a plugin: treebanks, trees as symbols, and their scores."""

from __future__ import annotations

__all__ = ["EvalbConfig"]

from dataclasses import dataclass
from typing import Literal

from s2s import Choice, Registry, hookimpl
from s2s.errors import ConfigError


@dataclass(kw_only=True)
class EvalbConfig(Choice):
    """Labelled bracketing F1 of trees, as EVALB counts it."""

    param: str = "COLLINS"
    """What is left out and what counts as the same: COLLINS, new, or a parameter file of your own."""
    cutoff: int | None = None
    """Longest sentence in the second summary; null: as the parameters say, which is 40."""
    errors: Literal["leave_out", "count"] = "leave_out"
    """Sentences whose words are not the reference's: leave them out, as EVALB does, or count none of their brackets
    as found."""

    def __post_init__(self) -> None:
        if self.cutoff is not None and self.cutoff < 0:
            raise ConfigError(f"metrics.evalb.cutoff={self.cutoff}: give a number of words, 0 or more")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The metric, under its name."""
    registry.metric("evalb", EvalbConfig, "s2s_parsing.evalb.metric:Evalb")
