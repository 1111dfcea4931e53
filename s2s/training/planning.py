"""The configuration of a run with the values that its recipe and train.budget decide."""

from __future__ import annotations

__all__ = ["with_budget", "with_recipe"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s import checkpoint
from s2s.compose import compose
from s2s.config import Config
from s2s.recipe import Plan, make_plan
from s2s.recipe.choose import given_keys
from s2s.training.budget import decide_steps, measure_pace

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.distributed import World
    from s2s.plugin import Plugins


def with_recipe(
    composed: ComposedConfig[Config], plugins: Plugins, world: World, run: Path
) -> tuple[ComposedConfig[Config], Plan | None]:
    """With the values of the recipe, and its plan, if there is one. A run that goes on in the folder `run` keeps the
    plan that it began with."""
    plan = Plan.read(run) if _has_begun(run) else make_plan(composed, plugins, world)
    return (_under(plan, composed, plugins), plan) if plan else (composed, None)


def with_budget(
    composed: ComposedConfig[Config], plan: Plan | None, plugins: Plugins, world: World, run: Path
) -> tuple[ComposedConfig[Config], Plan | None]:
    """With the number of updates that train.budget allows by the measured speed, if one is given.

    Where the speed that a recipe reckoned with was wrong by so much that it would now choose another model, it does.
    """
    seconds = composed.config.train.seconds
    if seconds is None or _has_begun(run):
        return composed, plan
    pace = measure_pace(composed.config, plugins, world)
    if plan and pace.flops:
        asked = compose(Config, composed.arguments, plugins)  # without the first plan
        again = make_plan(asked, plugins, world, plan, max(world.all_gather(pace.flops)))
        if again and _model(again) != _model(plan):
            plan, composed = again, _under(again, composed, plugins)
            pace = measure_pace(composed.config, plugins, world)
    by = f"train.budget={composed.config.train.budget}"
    decided = [replace(decision, by=by) for decision in decide_steps(composed.config, pace, seconds)]
    plan = (plan or Plan(by, ())).extended(decided)
    return _under(plan, composed, plugins), plan


def _has_begun(run: Path) -> bool:
    return bool(checkpoint.steps(run / "checkpoints"))


def _under(plan: Plan, composed: ComposedConfig[Config], plugins: Plugins) -> ComposedConfig[Config]:
    """What was asked for, over the plan."""
    measured = plan.measured(given_keys(composed))
    return compose(Config, composed.arguments, plugins, plan.settings(), measured)


def _model(plan: Plan) -> dict[str, object]:
    return {decision.key: decision.value for decision in plan.decisions if decision.key.startswith("arch")}
