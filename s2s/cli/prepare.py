"""s2s-prepare: learn the vocabulary and encode the corpora; no model is trained."""

from __future__ import annotations

__all__ = ["main"]

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.cli.input_files import check_files
from s2s.cli.outputs import check_output
from s2s.compose import compose, flatten
from s2s.config import Config
from s2s.config.data import PrepareConfig
from s2s.errors import ConfigError
from s2s.io.paths import expand_user
from s2s.io.shard import Shard
from s2s.training.planner import planner_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import ComposedConfig
    from s2s.plugin import Plugins
    from s2s.task import Task


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(PrepareConfig, prepare_only, argv, as_trained)


def as_trained(composed: ComposedConfig[PrepareConfig], plugins: Plugins) -> ComposedConfig[PrepareConfig]:
    """The configuration that s2s-train would use with the same arguments, so that it finds the prepared data."""
    try:
        training = compose(Config, composed.arguments, plugins)
    except ConfigError:  # for example no architecture, which preparation does not need
        return composed
    planned = planner_of(training.config, plugins).configure(training, None)
    config = PrepareConfig(
        task=planned.config.task, data=planned.config.data, recipe=planned.config.recipe, shard=composed.config.shard
    )
    origins = {key: planned.origins.get(key, origin) for key, origin in composed.origins.items()}
    return replace(composed, config=config, origins=origins)


def registered_task(composed: ComposedConfig[PrepareConfig], plugins: Plugins) -> Task:
    """The task of a configuration."""
    config = composed.config.task
    task: Task = plugins.registry.get("task", config.name).build(config)
    return task


def prepare_only(composed: ComposedConfig[PrepareConfig], plugins: Plugins, options: Options) -> None:
    """Prepare, and print the counts of each corpus; a dry run only opens the files."""
    from s2s.cli.progress import showing_progress
    from s2s.data import PreparationSpec
    from s2s.data.preparation import prepare, prepare_shard
    from s2s.data.text import open_bytes

    shard = Shard.parse(composed.config.shard) if composed.config.shard else None
    check_files(composed.config, plugins)
    if options.dry_run and (pending := registered_task(composed, plugins).pending()):
        print(*pending, sep="\n")
        return
    composed = as_trained(composed, plugins)
    config, values = composed.config, flatten(composed.config)
    recipes = [
        f"{key}={values[key]}  {by}"
        for key, by in composed.origins.items()
        if key.startswith("task.") and by.startswith("recipe=")
    ]
    task = registered_task(composed, plugins)
    check_output(composed, "data.prepared", [expand_user(config.data.prepared, "data.prepared")])
    if options.dry_run:
        spec = PreparationSpec(task, config.data, plugins.registry)
        for file in spec.files:
            with open_bytes(file, text=False):
                pass
        print("\n".join([*recipes, *task.describe(), f"would be made in {spec.directory}"]))
        return
    with showing_progress(options.quiet) as (report, every):
        if shard:
            prepared = prepare_shard(task, config.data, shard, report, every, registry=plugins.registry)
        else:
            prepared = prepare(task, config.data, report, every, registry=plugins.registry)
    if not prepared:
        print(f"shard {config.shard} is encoded; the last command to finish merges all")
        return
    for warning in prepared.overlap_warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if not options.quiet:
        print("\n".join([*recipes, *task.describe(), *prepared.report]))
