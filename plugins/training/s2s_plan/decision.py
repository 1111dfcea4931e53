"""A decision: one value that a recipe has chosen, with its reason."""

from __future__ import annotations

__all__ = ["Decision"]

from dataclasses import dataclass
from typing import Any

from s2s.compose import Setting


@dataclass(frozen=True)
class Decision:
    """One option's value, or the choice in a group."""

    key: str
    """Dotted key, such as arch.d_model; for a choice, the group"""
    value: Any
    reason: str
    """What the value follows from, in a few words: 161,721 pairs, 2 CPU cores"""
    source: str = ""
    """Where the rule was published, or the file of the measurement"""
    by: str = ""
    """What decided, where it was not the plan's recipe: train.budget=30m"""

    def setting(self, recipe: str) -> Setting:
        """The decision as a configuration setting, with the origin that --print-config shows."""
        origin = f"{self.by or recipe}: {self.reason}" + (f" ({self.source})" if self.source else "")
        return Setting(tuple(self.key.split(".")), self.value, origin)
