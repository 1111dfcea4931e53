"""s2s-train: from a configuration to a trained model; the same command continues a run that was stopped."""

from __future__ import annotations

__all__ = ["main", "train_or_launch"]

import os
import sys
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.cli.input_files import check_files
from s2s.cli.outputs import check_output
from s2s.config import Config
from s2s.distributed.strategy import chosen_strategy, join
from s2s.lasting import lasting_objects
from s2s.run import run_path
from s2s.training.planner import planner_of
from s2s.training.signals import StopSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import ComposedConfig
    from s2s.plugin import Plugins


def train(composed: ComposedConfig[Config], plugins: Plugins, options: Options) -> int:
    """Train or resume."""
    with StopSignal().handling() as stop:
        with lasting_objects():  # torch, which --help does without
            from s2s.training.agreement import check_agreement, options_of
            from s2s.training.session import dry_run, run_training

        world = join(composed.config.train, plugins.registry)
        try:
            check_agreement(world, lambda: options_of(composed.config, plugins))
            if options.dry_run:
                return dry_run(composed, plugins, world)
            return run_training(composed, plugins, world, stop, quiet=options.quiet)
        finally:
            world.close()


def train_or_launch(
    composed: ComposedConfig[Config], plugins: Plugins, options: Options, arguments: Sequence[str]
) -> int:
    """Train here, or in processes that the strategy starts with `arguments`."""
    if "RANK" not in os.environ:  # which torchrun sets
        _check_run(composed)
        check_files(composed.config, plugins)
        strategy = chosen_strategy(composed.config.train, plugins.registry)
        code = strategy.launch(composed.config.train, arguments) if strategy else None
        if code is not None:
            return code
    return train(composed, plugins, options)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    arguments = sys.argv[1:] if argv is None else argv

    def train_or_launch_here(composed: ComposedConfig[Config], plugins: Plugins, options: Options) -> int:
        return train_or_launch(composed, plugins, options, arguments)

    return run_command(Config, train_or_launch_here, argv, _shown)


def _check_run(composed: ComposedConfig[Config]) -> None:
    """Raise ConfigError for a run in another one that is read, such as that of a teacher."""
    if composed.config.run:
        check_output(composed, "run", [run_path(composed.config.run)])


def _shown(composed: ComposedConfig[Config], plugins: Plugins) -> ComposedConfig[Config]:
    """For --print-config: as a planner completes it, without measuring anything that takes an update."""
    return planner_of(composed.config, plugins).configure(composed, None)


if __name__ == "__main__":
    sys.exit(main())
