"""A plan: every value that a recipe has chosen, with its reason, kept in the run so that it stays when the run goes on.

Its values lie above presets and below files and the command line: whoever names one overrides it.
"""

from __future__ import annotations

__all__ = ["PLAN", "Decision", "Plan"]

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from s2s.compose.settings import Setting
from s2s.errors import CheckpointError
from s2s.io.atomic import write_file
from s2s.io.json_files import dump_record, read_record
from s2s.recipe.fingerprint import Fingerprint
from s2s.recipe.hardware import Hardware

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from pathlib import Path

PLAN = "plan.json"
"""The file of a run's plan"""


@dataclass(frozen=True)
class Decision:
    """One value, or the choice of a group."""

    key: str
    """Dotted key, such as arch.d_model; of a choice, the group"""
    value: Any
    reason: str
    """What it follows from, in a few words: 161,721 pairs, 2 CPU cores"""
    source: str = ""
    """Where the rule was published, or the file of the measurement"""

    by: str = ""
    """Who decided, where it was not the plan's recipe: train.budget=30m"""

    def origin(self, recipe: str) -> str:
        """What --print-config says of the value."""
        return f"{self.by or recipe}: {self.reason}" + (f" ({self.source})" if self.source else "")


@dataclass(frozen=True)
class Plan:
    """What a recipe decided, and what it knew."""

    recipe: str
    """recipe=NAME, or train.budget=… where only the length of the run was decided"""
    decisions: tuple[Decision, ...]
    fingerprint: Fingerprint | None = None
    hardware: Hardware | None = None

    def settings(self) -> list[Setting]:
        """The recipe's decisions, each with its own origin, choices first."""
        own = sorted((d for d in self.decisions if not d.by), key=lambda decision: "." in decision.key)
        return [self._setting(decision) for decision in own]

    def measured(self, given: Container[str]) -> list[Setting]:
        """Decisions from measurements, but for options that are `given`: they suit whatever groups the user chose."""
        return [self._setting(decision) for decision in self.decisions if decision.by and decision.key not in given]

    def _setting(self, decision: Decision) -> Setting:
        return Setting(tuple(decision.key.split(".")), decision.value, decision.origin(self.recipe))

    def extended(self, decisions: Sequence[Decision]) -> Plan:
        """The same with more decisions, which replace earlier ones about the same option."""
        keys = {decision.key for decision in decisions}
        kept = (decision for decision in self.decisions if decision.key not in keys)
        return replace(self, decisions=(*kept, *decisions))

    def describe(self) -> list[str]:
        """Lines for the header: what is known of the data, what was chosen, where the reasons are."""
        chosen = "  ".join(f"{decision.key}={decision.value}" for decision in self.decisions)
        lines = [self.fingerprint.describe()] if self.fingerprint else []
        return [*lines, f"{chosen}; reasons: --print-config, or {PLAN} in the run"]

    def write(self, folder: Path) -> None:
        """Keep it in a run."""
        write_file(folder / PLAN, dump_record(asdict(self)))

    @staticmethod
    def forget(folder: Path) -> None:
        """Remove the plan of a run that begins anew without one."""
        (folder / PLAN).unlink(missing_ok=True)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The plan of a run; None if it was made without one."""
        path = folder / PLAN
        try:
            record = read_record(path)
            return cls(
                recipe=record["recipe"],
                decisions=tuple(Decision(**decision) for decision in record["decisions"]),
                fingerprint=Fingerprint.of_record(record["fingerprint"]) if record["fingerprint"] else None,
                hardware=Hardware(**record["hardware"]) if record["hardware"] else None,
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{path} is damaged ({error}): put it back, delete it and give all values of {folder}/resolved.yaml, "
                "or give another run=… to start anew"
            ) from None
