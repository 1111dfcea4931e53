"""s2s-prepare: learn the vocabulary and encode the corpora; no model is trained."""

from __future__ import annotations

__all__ = ["main"]

import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from s2s import ConfigError
from s2s.cli import Options, run_command
from s2s.compose import compose, flatten
from s2s.config import Config, PrepareConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from s2s import Plugins
    from s2s.compose import ComposedConfig


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(PrepareConfig, prepare_only, argv, as_trained)


def as_trained(composed: ComposedConfig[PrepareConfig], plugins: Plugins) -> ComposedConfig[PrepareConfig]:
    """The configuration that s2s-train would use with the same arguments, so that it finds the prepared data."""
    try:
        training = compose(Config, composed.arguments, plugins)
    except ConfigError:  # for example no architecture, which preparation does not need
        return composed
    found = plugins.hook.s2s_configure(composed=training, plugins=plugins, world=None)
    if found is None:
        return composed
    config = PrepareConfig(task=found.config.task, data=found.config.data, recipe=found.config.recipe)
    origins = {key: found.origins.get(key, origin) for key, origin in composed.origins.items()}
    return replace(composed, config=config, origins=origins)


def prepare_only(composed: ComposedConfig[PrepareConfig], plugins: Plugins, options: Options) -> None:
    """Prepare, and print the counts of each corpus; a dry run only opens the files."""
    from s2s.data import PreparationSpec, open_bytes, prepare

    composed = as_trained(composed, plugins)
    config, values = composed.config, flatten(composed.config)
    recipes = [
        f"{key}={values[key]}  {by}"
        for key, by in composed.origins.items()
        if key.startswith("task.") and by.startswith("recipe=")
    ]
    task = plugins.registry.get("task", config.task.name).build(config.task)
    if options.dry_run:
        spec = PreparationSpec(task, config.data)
        for file in spec.files:
            with open_bytes(file):
                pass
        print("\n".join([*recipes, *task.describe(), f"would be made in {spec.directory}"]))
        return
    with _shown(options.quiet) as (report, every):
        prepared = prepare(task, config.data, report, every)
    if not options.quiet:
        print("\n".join([*recipes, *task.describe(), *prepared.report]))


@contextmanager
def _shown(quiet: bool) -> Iterator[tuple[Callable[[str], None], float]]:
    """A function that shows progress, and the seconds between its calls: a bar on a terminal, lines elsewhere."""
    console = Console(stderr=True, quiet=quiet)
    if quiet or not console.is_terminal:
        yield (lambda line: None if quiet else print(line, file=sys.stderr, flush=True)), 10.0
        return
    with Progress(BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as bar:
        row = bar.add_task("starting", total=None)
        yield (lambda line: bar.update(row, description=line.replace("[", r"\["))), 0.2
        bar.update(row, total=1, completed=1)
