"""What the user leaves open: recipes, train.budget, and `auto` of train.precision, tokens and micro_tokens.

A recipe is registered under a name (`registry.recipe("by_size", Config, factory)`) and called once, before the run
begins. Its decisions override presets, are overridden by files and the command line, and are stored with the run. This
plugin also measures what `train.budget` allows and produces the warnings on the first screen: docs/recipes.md.
"""

from __future__ import annotations

__all__ = [
    "AutoConfig",
    "Decision",
    "Fingerprint",
    "Hardware",
    "PlanConfig",
    "Recipe",
    "RunPlanner",
    "Side",
    "Situation",
]

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from s2s import Choice, Registry, hookimpl
from s2s.config import above, check_ranges
from s2s_plan.run_length import PlanConfig, plan_options

if TYPE_CHECKING:
    from s2s import Observer, Plugins, TrainerView
    from s2s.training import Planner
    from s2s_plan.fingerprint import Fingerprint, Side
    from s2s_plan.hardware import Hardware
    from s2s_plan.plan import Decision
    from s2s_plan.planner import RunPlanner
    from s2s_plan.situation import Recipe, Situation

MODULES = {
    "Decision": "plan",
    "Fingerprint": "fingerprint",
    "Hardware": "hardware",
    "Recipe": "situation",
    "RunPlanner": "planner",
    "Side": "fingerprint",
    "Situation": "situation",
}
"""Names that are imported when first used, since every command imports this package"""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 's2s_plan' has no attribute '{name}'")
    return getattr(importlib.import_module(f"s2s_plan.{MODULES[name]}"), name)


@dataclass(kw_only=True)
class AutoConfig(Choice):
    """Size, subwords, regularisation and updates from the corpus and the measured speed and memory."""

    hours: float = 8.0
    """Longest run to plan for; an estimate only, whereas train.budget sets a time that is kept."""

    def __post_init__(self) -> None:
        check_ranges("recipe", self, hours=above(0))


def no_recipe(_: Choice) -> Recipe:
    """No decisions: the defaults of options and presets apply."""
    return lambda _: ()


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(PlanConfig)
    registry.recipe("auto", AutoConfig, "s2s_plan.rule:auto")
    registry.recipe("fine_tuning", Choice, "s2s_plan.fine_tuning:fine_tuning")
    registry.recipe("none", Choice, no_recipe)


@hookimpl
def s2s_plan(plugins: Plugins) -> Planner:
    """The planner of every run: a recipe and a budget if the configuration has them, and `auto`."""
    from s2s_plan.planner import RunPlanner

    return RunPlanner(plugins)


@hookimpl
def s2s_observe(trainer: TrainerView) -> Observer | None:
    """The observer that ends a run within train.budget, unless the user has set train.steps."""
    seconds = plan_options(trainer.config).budget_seconds
    if seconds is None:
        return None
    from s2s_plan.budget import TimeBudget
    from s2s_plan.plan import Plan

    plan = Plan.read(trainer.directory)
    if plan is None or plan.value("train.steps") != trainer.config.train.steps:
        return None
    return TimeBudget(trainer, seconds, trainer.config.train.steps, plan.validation)
