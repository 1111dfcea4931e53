"""A plan: every value that a recipe has chosen, with its reason, stored in the run so that a continued run keeps it.

Its values override presets and are overridden by files and the command line.
"""

from __future__ import annotations

__all__ = ["PLAN", "Decision", "Plan"]

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from s2s import CheckpointError
from s2s.compose import Setting
from s2s.io import dump_record, read_record
from s2s_plan.fingerprint import Fingerprint
from s2s_plan.hardware import Hardware

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from pathlib import Path


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


PLAN = "plan.json"
"""The file of a run's plan"""


@dataclass(frozen=True)
class Plan:
    """What a recipe decided, and from what."""

    recipe: str
    """recipe=NAME, or train.budget=… where only the length of the run was decided"""
    decisions: tuple[Decision, ...]
    fingerprint: Fingerprint | None = None
    hardware: Hardware | None = None
    validation: float = 0.0
    """Seconds of a validation, as estimated with train.budget; 0: there is none, or it is not known"""

    def value(self, key: str) -> Any:
        """The value decided for an option; None if there is none."""
        return next((decision.value for decision in self.decisions if decision.key == key), None)

    @property
    def experiment(self) -> str:
        """The experiment that the recipe has taken; empty: none."""
        return self.value("experiment") or ""

    def model(self) -> dict[str, Any]:
        """The decisions about the model, by option."""
        return {decision.key: decision.value for decision in self.decisions if decision.key.startswith("arch")}

    def settings(self) -> list[Setting]:
        """The recipe's decisions, each with its decisions origin, choices first."""
        chosen = (d for d in self.decisions if not d.by and d.key != "experiment")
        decisions = sorted(chosen, key=lambda decision: "." in decision.key)
        return [decision.setting(self.recipe) for decision in decisions]

    def measured(self, user_keys: Container[str]) -> list[Setting]:
        """Decisions from measurements, except for options that the user has set: they fit any choice of groups."""
        decisions = [decision for decision in self.decisions if decision.by and decision.key not in user_keys]
        return [decision.setting(self.recipe) for decision in decisions]

    def extended(self, decisions: Sequence[Decision]) -> Plan:
        """The plan with more decisions, which replace earlier ones for the same option."""
        keys = {decision.key for decision in decisions}
        kept = (decision for decision in self.decisions if decision.key not in keys)
        return replace(self, decisions=(*kept, *decisions))

    def describe(self, user_keys: Container[str] = ()) -> list[str]:
        """Lines for the header: the fingerprint, the values of options that are not set, and where the reasons are."""
        decisions = (d for d in self.decisions if d.key not in user_keys and f"{d.key}.name" not in user_keys)
        chosen = "  ".join(f"{decision.key}={decision.value}" for decision in decisions)
        lines = [self.fingerprint.describe()] if self.fingerprint else []
        reasons = f"reasons: --print-config, or {PLAN} in the run"
        return [*lines, f"{chosen}; {reasons}" if chosen else "every option that the recipe decides is given"]

    def to_bytes(self) -> bytes:
        """The plan as stored in the run."""
        return dump_record(self.record())

    def record(self) -> dict[str, Any]:
        """The plan as a JSON-serialisable dictionary."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `record`."""
        return cls(
            recipe=record["recipe"],
            decisions=tuple(Decision(**decision) for decision in record["decisions"]),
            fingerprint=Fingerprint.of_record(record["fingerprint"]) if record["fingerprint"] else None,
            hardware=Hardware(**record["hardware"]) if record["hardware"] else None,
            validation=record.get("validation", 0.0),  # plans of earlier runs have none
        )

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The plan of a run; None if it was made without one."""
        path = folder / PLAN
        try:
            return cls.of_record(read_record(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{path} is damaged ({error}): put it back, delete it and give all values of {folder}/resolved.yaml, "
                "or give another run=… to start anew"
            ) from None
