"""The configuration of a run with the values that its recipe and train.budget decide."""

from __future__ import annotations

__all__ = ["configure"]

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from s2s import ConfigError, Plugins
from s2s.checkpoint import steps
from s2s.compose import ComposedConfig, compose, flatten
from s2s.config import Config
from s2s.distributed import World, pick_device
from s2s.run import find_run, run_path
from s2s_plan.budget import LENGTHS, ended_after
from s2s_plan.fingerprint import take
from s2s_plan.hardware import measure
from s2s_plan.measured_pace import measure_pace
from s2s_plan.plan import PLAN, Decision, Plan
from s2s_plan.planned_length import decide_steps
from s2s_plan.run_length import plan_options
from s2s_plan.situation import FINE_TUNING, Situation, is_advice, names_architecture, recipe_of, user_keys

if TYPE_CHECKING:
    from pathlib import Path

    from s2s import Task
    from s2s_plan.fingerprint import Fingerprint
    from s2s_plan.hardware import Hardware


def configure(
    composed: ComposedConfig[Config], plugins: Plugins, world: World | None, name: str
) -> ComposedConfig[Config]:
    """The requested configuration, completed by a plan. A continued run keeps the plan that it began with.

    name: of the run. world: its processes; None if the values are only shown: then train.budget is not measured.
    """
    run, request = run_path(name), _Request(composed, plugins)
    files: dict[str, bytes | None] = {PLAN: None}
    if steps(run / "checkpoints"):
        plan = Plan.read(run)
        request.check_budget(plan, run)
    else:
        files[LENGTHS] = None
        device = composed.config.train.device
        plan = request.plan(world or World(device=pick_device(device, "train.device")))
        plan = request.with_budget(plan, world) if world else plan
    if plan is None:
        return replace(composed, files=files)
    notes = [("plan", line) for line in plan.describe(request.user_keys)]
    return replace(request.under(_as_ended(plan, run)), notes=notes, files={**files, PLAN: plan.to_bytes()})


def _as_ended(plan: Plan, run: Path) -> Plan:
    """The plan with the final length of a run that has ended at an adjusted length."""
    length = ended_after(run)
    moved = [replace(decision, value=length) for decision in plan.decisions if decision.key == "train.steps"]
    return plan.extended(moved) if length else plan


@dataclass(frozen=True)
class _Request:
    """What the user asks for, from which plans are made."""

    composed: ComposedConfig[Config]
    plugins: Plugins

    @property
    def user_keys(self) -> set[str]:
        """The options that the user has set."""
        return user_keys(self.composed)

    def under(self, plan: Plan | None) -> ComposedConfig[Config]:
        """The requested configuration, composed on top of a plan."""
        if plan is None:
            return self.composed
        settings, measured = plan.settings(), plan.measured(self.user_keys)
        arguments, began = self.composed.arguments, self.composed.began
        composed = compose(Config, arguments, self.plugins, settings, measured, experiment=plan.experiment)
        return replace(composed, began=began)

    def _recommended(self, task: Task, n_pairs: int) -> tuple[str, Config]:
        """The experiment that the task recommends, or "" if the user's options exclude it, and the configuration."""
        experiment = task.recommended_experiment(n_pairs)
        if experiment and not names_architecture(self.composed):
            with suppress(ConfigError):  # such as options of another architecture
                with_it = compose(Config, self.composed.arguments, self.plugins, experiment=experiment)
                return experiment, with_it.config
        return "", self.composed.config

    def check_budget(self, plan: Plan | None, run: Path) -> None:
        """Raise ConfigError for a budget that nothing would keep: the length was not measured when the run began."""
        is_planned = plan is not None and plan.value("train.steps") is not None
        budget = plan_options(self.composed.config).budget
        if budget and not is_planned and "train.steps" not in self.user_keys:
            raise ConfigError(
                f"train.budget={budget}: {run} began without one, and so has no measured length; give train.steps, or "
                "another run=…"
            )

    def plan(self, world: World, known: Plan | None = None, reached: float | None = None) -> Plan | None:
        """The plan of the requested recipe, if any; every process must call it, and all get the same plan.

        known: an earlier plan for the same data and devices, which are then not measured again. reached: operations
        per second in updates of that plan.
        """
        if not recipe_of(self.composed):
            return None
        hardware = (known and known.hardware) or measure(world, self.composed.config.train)
        fingerprint = known.fingerprint if known else None
        with world.main_process_first("fingerprint"):
            plan = self._follow_recipe(hardware, fingerprint, reached) if world.is_main else None
        return Plan.of_record(world.all_gather(plan.record() if plan else {})[0])

    def with_budget(self, plan: Plan | None, world: World) -> Plan | None:
        """The plan with the number of updates that train.budget, if given, allows at the measured speed.

        If the recipe would choose another model at the measured speed, the plan is made again with that model.
        """
        options = plan_options(self.composed.config)
        seconds, by = options.budget_seconds, f"train.budget={options.budget}"
        if seconds is None:
            return plan
        config = self.under(plan).config
        pace = measure_pace(config, self.plugins, world, seconds)
        if plan and pace.flops:
            again = self.plan(world, plan, max(world.all_gather(pace.flops)))
            if again and again.model() != plan.model():
                plan, config = again, self.under(again).config
                pace = measure_pace(config, self.plugins, world, seconds)
        passed = world.all_gather(time.monotonic() - self.composed.began)[0] + pace.build
        length = decide_steps(config, pace, seconds, passed, self.user_keys)
        extended = (plan or Plan(by, ())).extended([replace(decision, by=by) for decision in length.decisions])
        return replace(extended, validation=length.validation)

    def _follow_recipe(self, hardware: Hardware, fingerprint: Fingerprint | None, reached: float | None) -> Plan:
        config, registry, name = self.composed.config, self.plugins.registry, recipe_of(self.composed)
        entry = registry.get("recipe", name)
        is_named = bool(config.recipe.name)
        options = config.recipe if is_named else entry.config(name=name)
        task: Task = registry.get("task", config.task.name).build(config.task)
        fingerprint = fingerprint or take(task)
        values = {key: value for key, value in flatten(config).items() if key in self.user_keys}
        seconds = plan_options(config).budget_seconds
        experiment, config = self._recommended(task, fingerprint.n_pairs)
        advised = frozenset(key for key, origin in self.composed.origins.items() if is_advice(origin))
        situation = Situation(
            fingerprint=fingerprint,
            hardware=hardware,
            config=config,
            explicit=values,
            seconds=seconds,
            reached=reached,
            vocab_size_option=task.open_vocab_size(),
            tokenizers=registry.names("tokenizer"),
            advised=advised,
            unset=frozenset(key for key, origin in self.composed.origins.items() if origin == "default"),
            replayed_pairs=_replayed_pairs(config, self.plugins),
            experiment=experiment,
        )
        why = "train.init_from" if name == FINE_TUNING else "neither arch nor experiment is named"
        first = [] if is_named else [Decision("recipe", name, why)]
        return Plan(f"recipe={name}", (*first, *entry.build(options)(situation)), fingerprint, hardware)


def _replayed_pairs(config: Config, plugins: Plugins) -> float:
    """Pairs of an epoch of the run whose text is mixed in; 0 if there is none."""
    data = config.data
    if not data.replay:
        return 0.0
    from s2s.run import training_data  # torch

    return training_data(find_run(data.replay), data.prepared, plugins).epoch_pairs
