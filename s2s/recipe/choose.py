"""Which recipe a configuration asks for, and the plan that it makes."""

from __future__ import annotations

__all__ = ["Recipe", "Situation", "given_keys", "make_plan", "recipe_of"]

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s.compose import flatten
from s2s.config import Config
from s2s.recipe.fingerprint import Fingerprint, take
from s2s.recipe.hardware import Hardware, measure
from s2s.recipe.plan import Decision, Plan

if TYPE_CHECKING:
    from s2s.compose import ComposedConfig
    from s2s.distributed import World
    from s2s.plugin import Plugins

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


def recipe_of(composed: ComposedConfig[Config], plugins: Plugins) -> str:
    """The recipe that is asked for, or the default one where nobody has named an architecture; empty for none."""
    asked = composed.config.recipe.name
    if asked or ("recipe", DEFAULT) not in plugins.registry.entries:
        return "" if asked == "none" else asked
    by_experiment = any(origin.startswith("preset experiment=") for origin in composed.origins.values())
    by_task = composed.origins["arch.name"].endswith(", defaults")
    return DEFAULT if by_task and not by_experiment and not composed.config.train.init_from else ""


def given_keys(composed: ComposedConfig[Config]) -> set[str]:
    """The options that the user has set."""
    return {key for key, origin in composed.origins.items() if origin.startswith(USERS)}


def make_plan(
    composed: ComposedConfig[Config],
    plugins: Plugins,
    world: World,
    known: Plan | None = None,
    reached: float | None = None,
) -> Plan | None:
    """The plan of the recipe that is asked for, if one is; every process must call it, and all get the same.

    `known` is an earlier plan for the same data and devices, which are then not looked at again.
    """
    if not recipe_of(composed, plugins):
        return None
    hardware = known.hardware if known else measure(world, composed.config.train)
    fingerprint = known.fingerprint if known else None
    assert hardware is not None, "a recipe's plan has its hardware"
    with world.main_process_first("fingerprint"):
        plan = _made(composed, plugins, hardware, fingerprint, reached) if world.is_main else None
    return world.all_gather(plan)[0]


def _made(
    composed: ComposedConfig[Config],
    plugins: Plugins,
    hardware: Hardware,
    fingerprint: Fingerprint | None,
    reached: float | None,
) -> Plan:
    config, registry = composed.config, plugins.registry
    name = recipe_of(composed, plugins)
    entry = registry.get("recipe", name)
    asked = bool(config.recipe.name)
    options = config.recipe if asked else entry.config(name=name)
    fingerprint = fingerprint or take(registry.get("task", config.task.name).build(config.task))
    values, keys = flatten(config), given_keys(composed)
    given = {key: value for key, value in values.items() if key in keys}
    situation = Situation(fingerprint, hardware, config, given, config.train.seconds, reached)
    first = [] if asked else [Decision("recipe", name, "neither arch nor experiment is named")]
    return Plan(f"recipe={name}", (*first, *entry.build(options)(situation)), fingerprint, hardware)
