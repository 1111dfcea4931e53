"""s2s-average: the mean of several checkpoints of a run, written as another checkpoint (section 6.1)."""

from __future__ import annotations

__all__ = ["main"]

from typing import TYPE_CHECKING

from s2s.checkpoint import steps
from s2s.checkpoint.manifest import check_replaceable
from s2s.cli.command import Options, run_command
from s2s.config.average import AverageConfig
from s2s.errors import CheckpointError, ConfigError
from s2s.lasting import lasting_objects
from s2s.run import find_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import ComposedConfig
    from s2s.plugin import Plugins

CHOICES = ("auto", "best", "last")
"""Values of `checkpoint` that choose by a rule, not by a name"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(AverageConfig, average, argv)


def average(composed: ComposedConfig[AverageConfig], _plugins: Plugins, options: Options) -> None:
    """Write `checkpoints/<output>`, and print its members."""
    config = composed.config
    if (config.last > 0) == (config.best > 0):
        raise ConfigError("give last=5 for the newest five checkpoints of the run, or best=5 for its best five")
    if config.output.startswith("step-"):
        raise ConfigError(f"output={config.output}: names with step- are those of training; try output=average")
    if config.output in CHOICES:
        raise ConfigError(
            f"output={config.output}: checkpoint={config.output} means one that training wrote; try output=average"
        )
    folder = find_run(config.run) / "checkpoints"
    with lasting_objects():  # torch, which errors about options and runs do without
        from s2s.checkpoint.directory import best_steps, save
        from s2s.checkpoint.weights import average_weights

    members = steps(folder)[-config.last :] if config.last > 0 else best_steps(folder)[: config.best]
    if len(members) < max(config.last, config.best):
        kept = f"checkpoint.keep_{'last' if config.last > 0 else 'best'}"
        raise CheckpointError(f"{folder} has only {len(members)} of them; the run decides by {kept} how many stay")
    check_replaceable(folder / config.output)
    mean = average_weights(members)
    if not options.dry_run:
        newest = int(steps(folder)[-1].name.removeprefix("step-"))
        names = [path.name for path in members]
        save(folder, config.output, {"model": mean}, {"members": names, "trainer": {"step": newest}})
    if not options.quiet:
        print(*(f"member   {path}" for path in members), sep="\n")
        print(f"average  {folder / config.output}{' (not written)' if options.dry_run else ''}")
        print(f"next     s2s-generate run={config.run} checkpoint={config.output}")
