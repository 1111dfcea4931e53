"""One call of s2s-train: its run directory, its first screen, and how it ends."""

from __future__ import annotations

__all__ = ["dry_run", "train_in"]

import json
import resource
import shlex
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.assemble import assemble
from s2s.compose.yaml12 import to_text
from s2s.errors import Preempted, UserError
from s2s.log import Log
from s2s.run import RunDirectory, run_path
from s2s.stopping import Stopped, StopSignal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.compose import ComposedConfig
    from s2s.config import Config
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.trainer import Trainer

N_DRY = 3
"""Updates of a dry run; the quickest counts"""


def train_in(composed: ComposedConfig[Config], plugins: Plugins, world: World, stop: StopSignal, *, quiet: bool) -> int:
    """Train in the run's directory, from wherever it stands; the exit code."""
    config = composed.config
    path = run_path(config.run or default_name(composed))
    # so that the run's config.yaml and resolved.yaml, given again, mean this run
    config.run = composed.given["run"] = str(path)
    before = _status(path)
    with RunDirectory(path, is_first=world.is_main) as run:
        warnings = run.begin(composed, plugins, world)
        with Log(path, config.log, config.train.steps, quiet=quiet, rank=world.rank) as log:
            if world.any_true(world.is_main and is_finished(before, config)):
                run.status(**before)
                option = "valid.patience" if before.get("stopped_early") else "train.steps"
                log.line(f"{path} is finished after {before.get('steps', 0):,} updates; raise {option} to go on")
                return 0
            for warning in warnings:
                log.warn(warning)
            with _remembered(run), stop.unmasked():
                trainer = _assembled(config, plugins, world, run, log)
                log.facts(list(first_screen(composed, trainer, plugins)))
                summary = trainer.train(stop)
            run.status("done", **summary)
            log.summary(summary, f"s2s-generate run={shlex.quote(str(run.path))} input=FILE")
    return 0


def _assembled(config: Config, plugins: Plugins, world: World, run: RunDirectory, log: Log) -> Trainer:
    """The trainer; a run that cannot be, for want of data or the like, leaves no folder and is not the last."""
    try:
        trainer = assemble(config, plugins, world, run, log)
    except UserError:
        run.discard()
        raise
    run.announce()
    return trainer


@contextmanager
def _remembered(run: RunDirectory) -> Iterator[None]:
    """Leave behind in status.json why the block ended before its end."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Preempted | Stopped):
            run.status("preempted", steps=run.saved_step, reason=str(error))
        else:
            run.status("failed", steps=run.saved_step, reason=f"{type(error).__name__}: {error}")
        raise


def is_finished(status: dict[str, Any], config: Config) -> bool:
    """Whether a run of before has done all that is asked for now, or has stopped improving."""
    patience = config.valid.patience
    stale = bool(status.get("stopped_early")) and 0 < patience <= status.get("n_stale", 0)
    return status.get("state") == "done" and (stale or status.get("steps", 0) >= config.train.steps)


def default_name(composed: ComposedConfig[Config]) -> str:
    """<task>-<arch>, by the names they were chosen by."""
    return f"{composed.chosen['task']}-{composed.chosen['arch']}"


def first_screen(composed: ComposedConfig[Config], trainer: Trainer, plugins: Plugins) -> Iterator[tuple[str, str]]:
    """What a user wants to see before he waits: what was asked for, on what, how large, where."""
    config, model, world = trainer.config, trainer.updater.model, trainer.world
    asked = [f"{group}={name}" for group, name in composed.chosen.items()]
    own = [key for key, origin in composed.origins.items() if _is_users(key, origin)]
    asked += [f"{key}={to_text(_value(config, key))}" for key in own]
    yield "config", "  ".join(asked)
    for line in trainer.report:
        yield "data", line
    n_parameters = sum(p.numel() for p in model.parameters())
    yield "model", f"{n_parameters:,} parameters, {config.arch.name}"
    machine = f"{world.device}, {config.train.precision}"
    yield "device", machine + (f", {world.size} processes" if world.size > 1 else "")
    for line in trainer.updater.backend.describe(world.device):
        yield "backend", line
    if trainer.rate:
        yield "backend", f"mfu is of {trainer.rate / 1e9:,.0f} GFLOP/s, which large products reach here"
    micro = f", {config.train.micro_tokens:,} at once" if config.train.micro_tokens else ""
    yield "update", f"{config.train.n_tokens:,} symbols a side{micro}, {config.train.steps:,} updates"
    strangers = [f"{name} ({origin})" for name, origin in plugins.loaded.items() if "s2s-toolkit" not in origin]
    if strangers:
        yield "plugins", ", ".join(strangers)
    if not trainer.validation:
        yield "valid", "no development set is given (task.valid), so nothing is judged and no checkpoint is the best"
    yield "run", f"{trainer.directory}; stop it when you like, the same command continues"


def dry_run(composed: ComposedConfig[Config], plugins: Plugins, world: World) -> int:
    """Prepare the data, build everything, make a few updates, and say what the whole run would take."""
    config = composed.config
    with (
        tempfile.TemporaryDirectory() as folder,
        Log(Path(folder), config.log, config.train.steps, rank=world.rank) as log,
    ):
        trainer = assemble(config, plugins, world, RunDirectory(Path(folder)), log)
        log.facts([fact for fact in first_screen(composed, trainer, plugins) if fact[0] != "run"])
        seconds = min((_timed(trainer, batch) for batch in islice(trainer.upcoming(), N_DRY)), default=0.0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        log.line(
            f"dry run: {seconds:.2f} s an update, {seconds * config.train.steps / 3600:.1f} h in all, "
            f"{peak / 2**30:.1f} GiB; nothing is kept but the prepared data in {config.data.prepared}"
        )
    return 0


def _timed(trainer: Trainer, batch: Any) -> float:
    began = time.monotonic()
    trainer.updater(batch, trainer.progress.step)
    return time.monotonic() - began


def _is_users(key: str, origin: str) -> bool:
    """Whether an option is worth showing: a user has set it, and it is no choice, which is shown already."""
    return not key.endswith(".name") and origin.startswith(("command line", "file "))


def _value(config: Config, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _status(path: Path) -> dict[str, Any]:
    """What status.json said when the run was last heard of."""
    try:
        status = json.loads((path / "status.json").read_bytes())
        return {key: value for key, value in status.items() if key != "since"}
    except (OSError, ValueError, AttributeError):
        return {}
