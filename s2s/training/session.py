"""One call of s2s-train: its run directory, its header, and its exit."""

from __future__ import annotations

__all__ = ["dry_run", "run_training"]

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from s2s.backend.host import training_threads
from s2s.checkpoint import directory as checkpoint
from s2s.compose.settings import COMMAND_LINE, DEFAULT
from s2s.compose.yaml12 import to_text
from s2s.errors import CheckpointError, Preempted, UserError
from s2s.io.json_files import read_checked
from s2s.log.log import Log, RunLength
from s2s.log.screen import choose_screen
from s2s.run import run_path
from s2s.run.directory import RunDirectory
from s2s.run.provenance import continued
from s2s.training.build import build_trainer
from s2s.training.build_model import described_size
from s2s.training.checkpointing import AVERAGE
from s2s.training.planner import planner_of
from s2s.training.signals import Stopped, StopSignal
from s2s.training.stand_in import dry_run_on_stand_in, measured_time
from s2s.training.trial import trial_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.config import Config
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.training.trainer import Trainer


def run_training(
    composed: ComposedConfig[Config], plugins: Plugins, world: World, stop: StopSignal, *, quiet: bool
) -> int:
    """Train in the run's directory, resuming it if it has begun; returns the exit code."""
    planner = planner_of(composed.config, plugins)
    path = run_path(composed.config.run or planner.run_name(composed))
    composed = continued(planner.configure(composed, world), path, plugins.registry)
    config = composed.config
    # so that the run's config.yaml and resolved.yaml, if used again, refer to this run
    config.run = composed.explicit["run"] = str(path)
    before = _status(path)
    screen = choose_screen(config.log, plugins.registry, quiet=quiet or not world.is_main)
    with RunDirectory(path, is_main=world.is_main) as run:
        warnings = run.begin(composed, plugins, world)
        with Log(path, config.log, RunLength(config.train.steps, composed.began), screen, world.rank) as log:
            if world.any_true(world.is_main and is_finished(before, config) and not _lost_its_end(run, before)):
                if world.is_main:
                    run.status(**before)
                log.info(finished_message(path, before, config))
                return 0
            run.write_files(composed.files)
            for warning in warnings:
                log.warn(warning)
            with _recording_status(run), training_threads(config.train.threads), stop.as_stopped():
                trainer = _built(config, plugins, world, run, log)
                log.show_facts([*startup_facts(composed, trainer, plugins), *planner.facts(trainer)])
                summary = trainer.train(stop)
            run.status("done", **summary)
    return 0


def _built(config: Config, plugins: Plugins, world: World, run: RunDirectory, log: Log) -> Trainer:
    """Build the trainer; a UserError removes the run's new folder, so that run=last stays as it was."""
    try:
        trainer = build_trainer(config, plugins, world, run, log)
    except UserError:
        run.discard()
        raise
    run.set_as_last()
    return trainer


@contextmanager
def _recording_status(run: RunDirectory) -> Iterator[None]:
    """Write to status.json why the block raised."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Preempted | Stopped):
            run.status("preempted", steps=run.saved_step, reason=str(error))
        else:
            run.status("failed", steps=run.saved_step, reason=f"{type(error).__name__}: {error}")
        raise


def is_finished(status: dict[str, Any], config: Config) -> bool:
    """Whether an earlier call did all updates, or stopped because validation no longer improved."""
    patience = config.valid.patience
    stale = bool(status.get("stopped_early")) and 0 < patience <= status.get("n_stale", 0)
    return status.get("state") == "done" and (stale or status.get("steps", 0) >= config.train.steps)


def _lost_its_end(run: RunDirectory, status: dict[str, Any]) -> bool:
    """Whether the last checkpoint of a finished run is there, but damaged: its updates are then made again."""
    last = run.checkpoints / checkpoint.step_name(status.get("steps", 0))
    return last.is_dir() and checkpoint.latest(run.checkpoints).path != last


def finished_message(path: Path, status: dict[str, Any], config: Config) -> str:
    """That a run is finished, how to continue it, and whether its average is of another number of checkpoints."""
    option, n_wanted = "valid.patience" if status.get("stopped_early") else "train.steps", config.train.average
    message = f"{path} is finished after {status.get('steps', 0):,} updates; raise {option} to go on"
    if (n_averaged := _n_averaged(path)) == n_wanted:
        return message
    why = f"its average is of {n_averaged}" if n_averaged else "it has no average"
    if n_wanted:
        why += f"; s2s-average run={path} {config.train.average_of}={n_wanted} averages those it has kept"
    return f"{message}; until then, train.average={n_wanted} has no effect: {why}"


def _n_averaged(path: Path) -> int:
    """The number of checkpoints in a run's average; 0 if there is none."""
    try:
        return len(checkpoint.load(path / "checkpoints" / AVERAGE, only=()).state["members"])
    except (CheckpointError, KeyError, TypeError):
        return 0


def startup_facts(composed: ComposedConfig[Config], trainer: Trainer, plugins: Plugins) -> Iterator[tuple[str, str]]:
    """What is shown before the first update: configuration, data, model, device, directory."""
    config, model, world = trainer.config, trainer.train_step.model, trainer.world
    chosen = [f"{group}={_trained_name(composed, group)}" for group in composed.chosen]
    set_by_user = [key for key, origin in composed.origins.items() if _is_set_by_user(key, origin)]
    chosen += [f"{key}={to_text(_value(config, key))}" for key in set_by_user]
    yield "config", "  ".join(chosen)
    yield from composed.notes
    yield from trainer.facts
    yield "model", described_size(model, config.arch.name)
    machine = f"{world.device}, {config.train.precision}" + (f", {world.size} processes" if world.size > 1 else "")
    n = torch.get_num_threads()
    yield "device", machine + (f", {n} thread{'s' if n > 1 else ''}" if world.device.type == "cpu" else "")
    for line in trainer.train_step.backend.describe(world.device):
        yield "backend", line
    if trainer.peak_flops:
        yield (
            "backend",
            f"mfu 100%: {trainer.peak_flops / 1e9:,.0f} GFLOP/s, as measured for large matrix products",
        )
    micro = f", {config.train.micro_tokens:,} at once" if config.train.micro_tokens else ""
    yield "update", f"{config.train.n_tokens:,} tokens a side{micro}, {config.train.steps:,} updates"
    third_party = [f"{name} ({origin})" for name, origin in plugins.loaded.items() if "s2s-toolkit" not in origin]
    if third_party:
        yield "plugins", ", ".join(third_party)
    if not trainer.validation:
        yield "valid", "no development set is given (task.valid): no validation, and no best checkpoint"
    yield "run", f"{trainer.directory}; stop it at any time: the same command continues it"


def dry_run(composed: ComposedConfig[Config], plugins: Plugins, world: World) -> int:
    """Prepare the data, build everything, make a few updates, and estimate time and memory of the whole run."""
    task = plugins.registry.get("task", composed.config.task.name).build(composed.config.task)
    if pending := task.pending():
        print(*pending, sep="\n")
        return dry_run_on_stand_in(composed.config, task, plugins, world)
    planner = planner_of(composed.config, plugins)
    composed = planner.configure(composed, world)
    config = composed.config
    with trial_run(config, plugins, world) as trainer:
        trainer.log.show_facts([fact for fact in startup_facts(composed, trainer, plugins) if fact[0] != "run"])
        seconds, time = measured_time(trainer, config.train.steps, world)
        kept = f"nothing is kept but the prepared data in {config.data.prepared}"
        trainer.log.show_facts([("dry run", time), *planner.facts(trainer, seconds), ("dry run", kept)])
    return 0


def _trained_name(composed: ComposedConfig[Config], group: str) -> str:
    """The name that a group was chosen by; its entry's where a plan has changed options of that preset."""
    named = (DEFAULT, "preset ", "file ", COMMAND_LINE)
    planned = (key for key, origin in composed.origins.items() if not origin.startswith(named))
    if any(key.startswith(f"{group}.") for key in planned):
        return str(getattr(composed.config, group).name)
    return composed.chosen[group]


def _is_set_by_user(key: str, origin: str) -> bool:
    """Whether the user has set an option; the names of entries do not count, since they are already shown."""
    return not key.endswith(".name") and origin.startswith(("command line", "file "))


def _value(config: Config, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _status(path: Path) -> dict[str, Any]:
    """The newest status.json, without its time; empty if there is none."""
    try:
        status = read_checked(path / "status.json")
        return {key: value for key, value in status.items() if key != "since"}
    except (OSError, ValueError):
        return {}
