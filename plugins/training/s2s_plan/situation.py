"""The inputs of a recipe, and which recipe a configuration selects."""

from __future__ import annotations

__all__ = ["Recipe", "Situation", "is_advice", "names_architecture", "recipe_of", "user_keys"]

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s.config import Config
from s2s_plan.fingerprint import Fingerprint
from s2s_plan.hardware import Hardware
from s2s_plan.plan import Decision

if TYPE_CHECKING:
    from s2s.compose import ComposedConfig

DEFAULT = "auto"
"""The recipe of a run for which the user names neither an architecture nor an experiment"""
FINE_TUNING = "fine_tuning"
"""The recipe of a run that starts from another one"""
USERS = ("command line", "file ")
"""Prefixes of the origins of options that the user has set"""


@dataclass(frozen=True)
class Situation:
    """All inputs of a recipe."""

    fingerprint: Fingerprint
    hardware: Hardware
    config: Config
    """The configuration without the recipe; with `experiment`, if there is one"""
    explicit: Mapping[str, Any]
    """Option -> value, as set by the user: a recipe's other values may depend on it"""
    seconds: float | None
    """train.budget; None: the recipe chooses how long the run takes"""
    reached: float | None = None
    """Operations per second measured in updates of an earlier plan; None: not measured"""
    vocab_size_option: str = ""
    """The option for the size of a vocabulary that is to be learnt, where the user has left it open; empty: none"""
    tokenizers: Collection[str] = ()
    """Names of registered tokenisers"""
    advised: frozenset[str] = frozenset()
    """Options that the task's preset sets"""
    unset: frozenset[str] = frozenset()
    """Options that nothing sets, so that they have their defaults"""
    replayed_pairs: float = 0.0
    """Pairs of an epoch of the run in data.replay; 0: none is named"""
    experiment: str = ""
    """The experiment that the task recommends for a corpus of this size; empty: none, or not with the user's options"""


Recipe = Callable[[Situation], Iterable[Decision]]


def recipe_of(composed: ComposedConfig[Config]) -> str:
    """The requested recipe, or the default one if no architecture is named; empty for none."""
    asked = composed.config.recipe.name
    if asked:
        return "" if asked == "none" else asked
    if any(origin.startswith("preset experiment=") for origin in composed.origins.values()):
        return ""
    if composed.explicit.get("train", {}).get("init_from"):  # an option of a plugin, which may be absent
        return FINE_TUNING
    return "" if names_architecture(composed) else DEFAULT


def names_architecture(composed: ComposedConfig[Config]) -> bool:
    """Whether the user has chosen the architecture, rather than the task's preset."""
    return not is_advice(composed.origins["arch.name"])


def is_advice(origin: str) -> bool:
    """Whether a value comes from the task's preset."""
    return origin.endswith(", defaults")


def user_keys(composed: ComposedConfig[Config]) -> set[str]:
    """The options that the user has set."""
    return {key for key, origin in composed.origins.items() if origin.startswith(USERS)}
