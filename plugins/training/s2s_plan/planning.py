"""The configuration of a run with the values that its recipe and train.budget decide."""

from __future__ import annotations

__all__ = ["configure"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.checkpoint import steps
from s2s.compose import compose, flatten
from s2s.config import Config
from s2s.distributed import World, pick_device
from s2s.run import run_path
from s2s_plan.budget import decide_steps, measure_pace
from s2s_plan.corpus_pass import take
from s2s_plan.decision import Decision
from s2s_plan.hardware import measure
from s2s_plan.options import plan_options
from s2s_plan.plan import PLAN, Plan
from s2s_plan.run_length import LENGTHS, ended_after
from s2s_plan.situation import Situation, given_keys, recipe_of

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Plugins
    from s2s.compose import ComposedConfig
    from s2s_plan.fingerprint import Fingerprint
    from s2s_plan.hardware import Hardware


def configure(
    composed: ComposedConfig[Config], plugins: Plugins, world: World | None, name: str
) -> ComposedConfig[Config]:
    """The requested configuration, completed by a plan. A continued run keeps the plan that it began with.

    name: of the run. world: its processes; None if the values are only shown: then train.budget is not measured.
    """
    config = composed.config
    run = run_path(name)
    files: dict[str, bytes | None] = {PLAN: None, LENGTHS: None}
    if steps(run / "checkpoints"):
        plan, files = Plan.read(run), {PLAN: None}
        _check_budget(composed, plan, run)
    elif world is None:
        plan = make_plan(composed, plugins, World(device=pick_device(config.train.device, "train.device")))
    else:
        plan = _with_budget(composed, make_plan(composed, plugins, world), plugins, world)
    if plan is None:
        return replace(composed, files=files)
    notes = [("plan", line) for line in plan.describe(given_keys(composed))]
    found = _under(_as_ended(plan, run), composed, plugins)
    return replace(found, notes=notes, files={**files, PLAN: plan.to_bytes()})


def _check_budget(composed: ComposedConfig[Config], plan: Plan | None, run: Path) -> None:
    """Raise ConfigError for a budget that nothing would keep: the length was not measured when the run began."""
    planned = plan is not None and plan.value("train.steps") is not None
    budget = plan_options(composed.config).budget
    if budget and not planned and "train.steps" not in given_keys(composed):
        raise ConfigError(
            f"train.budget={budget}: {run} began without one, and so has no measured length; give train.steps, or "
            "another run=…"
        )


def _as_ended(plan: Plan, run: Path) -> Plan:
    """The plan with the final length of a run that has ended at an adjusted length."""
    length = ended_after(run)
    moved = [replace(decision, value=length) for decision in plan.decisions if decision.key == "train.steps"]
    return plan.extended(moved) if length else plan


def _with_budget(composed: ComposedConfig[Config], plan: Plan | None, plugins: Plugins, world: World) -> Plan | None:
    """The plan with the number of updates that train.budget, if given, allows at the measured speed.

    If the recipe would choose another model at the measured speed, the plan is made again with that model.
    """
    options = plan_options(composed.config)
    seconds, by = options.budget_seconds, f"train.budget={options.budget}"
    if seconds is None:
        return plan
    planned = _under(plan, composed, plugins).config
    pace = measure_pace(planned, plugins, world, seconds)
    if plan and pace.flops:
        again = make_plan(composed, plugins, world, plan, max(world.all_gather(pace.flops)))
        if again and _model(again) != _model(plan):
            plan, planned = again, _under(again, composed, plugins).config
            pace = measure_pace(planned, plugins, world, seconds)
    steps_and_intervals = decide_steps(planned, pace, seconds, given_keys(composed))
    decided = [replace(decision, by=by) for decision in steps_and_intervals]
    return (plan or Plan(by, ())).extended(decided)


def make_plan(
    composed: ComposedConfig[Config],
    plugins: Plugins,
    world: World,
    known: Plan | None = None,
    reached: float | None = None,
) -> Plan | None:
    """The plan of the requested recipe, if any; every process must call it, and all get the same plan.

    `known` is an earlier plan for the same data and devices, which are then not measured again.
    """
    if not recipe_of(composed):
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
    name = recipe_of(composed)
    entry = registry.get("recipe", name)
    asked = bool(config.recipe.name)
    options = config.recipe if asked else entry.config(name=name)
    fingerprint = fingerprint or take(registry.get("task", config.task.name).build(config.task))
    values, keys = flatten(config), given_keys(composed)
    given = {key: value for key, value in values.items() if key in keys}
    situation = Situation(fingerprint, hardware, config, given, plan_options(config).budget_seconds, reached)
    first = [] if asked else [Decision("recipe", name, "neither arch nor experiment is named")]
    return Plan(f"recipe={name}", (*first, *entry.build(options)(situation)), fingerprint, hardware)


def _under(plan: Plan | None, composed: ComposedConfig[Config], plugins: Plugins) -> ComposedConfig[Config]:
    """The requested configuration, composed on top of the plan."""
    if plan is None:
        return composed
    return compose(Config, composed.arguments, plugins, plan.settings(), plan.measured(given_keys(composed)))


def _model(plan: Plan) -> dict[str, object]:
    return {decision.key: decision.value for decision in plan.decisions if decision.key.startswith("arch")}
