"""Recipes: options that the user has not set, chosen from the corpus and the machine, each value with its reason.

A recipe is registered under a name (`registry.recipe("by_size", Config, factory)`) and called once, before the run
begins. Its decisions override presets, are overridden by files and the command line, and are stored with the run. This
plugin also measures what `train.budget` allows and produces the warnings on the first screen: docs/recipes.md.
"""

from __future__ import annotations

__all__ = [
    "VALIDATIONS",
    "AutoConfig",
    "Decision",
    "Fingerprint",
    "Hardware",
    "Recipe",
    "Side",
    "Situation",
    "interval",
    "s2s_configure",
    "s2s_facts",
    "s2s_observe",
    "s2s_register",
    "s2s_run_name",
    "warmup",
]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s import Choice, Registry, hookimpl
from s2s.config import above, check_ranges
from s2s_recipe.decision import Decision
from s2s_recipe.fingerprint import Fingerprint, Side
from s2s_recipe.hardware import Hardware
from s2s_recipe.pace import VALIDATIONS, interval, warmup
from s2s_recipe.situation import Recipe, Situation, names_architecture, recipe_of

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Observer, Plugins, TrainerView
    from s2s.compose import ComposedConfig
    from s2s.config import Config
    from s2s.distributed import World
    from s2s.training import Trainer


@dataclass(kw_only=True)
class AutoConfig(Choice):
    """Size, subwords, regularisation and updates from the corpus and the measured speed and memory."""

    hours: float = 8.0
    """Longest run to plan for; an estimate only, whereas train.budget sets a time that is kept."""

    def __post_init__(self) -> None:
        check_ranges("recipe", self, hours=above(0))


def none(_: Choice) -> Recipe:
    """No decisions: the defaults of options and presets apply."""
    return lambda _: ()


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.recipe("auto", AutoConfig, "s2s_recipe.rule:auto")
    registry.recipe("none", Choice, none)


@hookimpl
def s2s_run_name(composed: ComposedConfig[Config]) -> str | None:
    """<task>-<recipe> where the recipe chooses the architecture."""
    recipe = recipe_of(composed)
    return f"{composed.chosen['task']}-{recipe}" if recipe and not names_architecture(composed) else None


@hookimpl
def s2s_configure(
    composed: ComposedConfig[Config], plugins: Plugins, world: World | None
) -> ComposedConfig[Config] | None:
    """The configuration with the recipe's values and the run length that train.budget allows."""
    if world is None and not recipe_of(composed):
        return None  # so that --print-config needs no torch
    from s2s_recipe.planning import configure

    return configure(composed, plugins, world)


@hookimpl
def s2s_facts(trainer: Trainer, seconds: float | None) -> list[tuple[str, str]]:
    """Forecast of the run (in a dry run), and warnings about settings that look like mistakes."""
    from s2s_recipe.forecast import forecast

    expected, config = forecast(trainer), trainer.config
    lines = [("dry run", line) for line in expected.describe(config, seconds)] if seconds is not None else []
    planned = _planned_steps(trainer.directory) == config.train.steps
    return [*lines, *(("warning", text) for text in expected.warnings(config, seconds or 0.0, planned=planned))]


@hookimpl
def s2s_observe(trainer: TrainerView) -> Observer | None:
    """The observer that ends a run within train.budget, unless the user has set train.steps."""
    seconds = trainer.config.train.budget_seconds
    if seconds is None:
        return None
    from s2s_recipe.run_length import TimeBudget

    planned = _planned_steps(trainer.directory)
    return TimeBudget(trainer, seconds, planned) if planned == trainer.config.train.steps else None


def _planned_steps(run: Path) -> int | None:
    """The number of updates in the plan of a run, if it has one."""
    from s2s_recipe.plan import Plan

    plan = Plan.read(run)
    return plan.value("train.steps") if plan else None
