"""What a recipe decides from, and which recipe a configuration asks for."""

from __future__ import annotations

__all__ = ["Recipe", "Situation", "given_keys", "names_architecture", "recipe_of"]

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s.config import Config
from s2s_recipe.decision import Decision
from s2s_recipe.fingerprint import Fingerprint
from s2s_recipe.hardware import Hardware

if TYPE_CHECKING:
    from s2s.compose import ComposedConfig

DEFAULT = "auto"
"""The recipe of a run whose user names neither an architecture nor an experiment"""
USERS = ("command line", "file ")
"""How the origins of what a user has set begin"""


@dataclass(frozen=True)
class Situation:
    """All that a recipe may decide from."""

    fingerprint: Fingerprint
    hardware: Hardware
    config: Config
    """The configuration without the recipe"""
    given: Mapping[str, Any]
    """Option -> value of what the user has set: a recipe's other values may follow it"""
    seconds: float | None
    """train.budget; None where the run may take as long as the recipe thinks right"""
    reached: float | None = None
    """Operations a second that updates of an earlier plan reached; None: nothing was tried"""


Recipe = Callable[[Situation], Iterable[Decision]]


def recipe_of(composed: ComposedConfig[Config]) -> str:
    """The recipe that is asked for, or the default one where nobody has named an architecture; empty for none."""
    asked = composed.config.recipe.name
    if asked:
        return "" if asked == "none" else asked
    by_experiment = any(origin.startswith("preset experiment=") for origin in composed.origins.values())
    continues = composed.config.train.init_from
    return "" if names_architecture(composed) or by_experiment or continues else DEFAULT


def names_architecture(composed: ComposedConfig[Config]) -> bool:
    """Whether the user has chosen the architecture, or else the advice of the task's preset."""
    return not composed.origins["arch.name"].endswith(", defaults")


def given_keys(composed: ComposedConfig[Config]) -> set[str]:
    """The options that the user has set."""
    return {key for key, origin in composed.origins.items() if origin.startswith(USERS)}
