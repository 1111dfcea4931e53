"""s2s-train: from a configuration to a trained model; run again, it continues."""

from __future__ import annotations

__all__ = ["main", "train_or_launch"]

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.config import Config
from s2s.training.signals import StopSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import ComposedConfig
    from s2s.plugin import Plugins


def train(composed: ComposedConfig[Config], plugins: Plugins, options: Options) -> int:
    """Train or resume."""
    with StopSignal().handling() as stop:
        from s2s import distributed  # torch, which --help does without
        from s2s.training.session import dry_run, train_in

        config = composed.config.train
        world = distributed.init(config.device, timedelta(seconds=config.timeout))
        try:
            if options.dry_run:
                return dry_run(composed, plugins, world)
            return train_in(composed, plugins, world, stop, quiet=options.quiet)
        finally:
            world.close()


def train_or_launch(
    composed: ComposedConfig[Config], plugins: Plugins, options: Options, arguments: Sequence[str]
) -> int:
    """Train here, or start a process with `arguments` for each device that train.devices asks for."""
    config = composed.config.train
    if config.devices != 1 and "RANK" not in os.environ:  # which torchrun sets
        from s2s.distributed.launcher import launch, n_processes

        if (n := n_processes(config)) > 1:
            return launch("s2s.cli.train", arguments, config, n)
    return train(composed, plugins, options)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    arguments = sys.argv[1:] if argv is None else argv

    def train_or_launch_here(composed: ComposedConfig[Config], plugins: Plugins, options: Options) -> int:
        return train_or_launch(composed, plugins, options, arguments)

    return run_command(Config, train_or_launch_here, arguments, _with_recipe)


def _with_recipe(composed: ComposedConfig[Config], plugins: Plugins) -> ComposedConfig[Config]:
    """For --print-config: with the values of the recipe; those of train.budget are measured when the run begins."""
    from s2s.recipe import recipe_of

    if not recipe_of(composed, plugins):
        return composed
    from s2s.distributed import World, pick_device  # torch, for the speed of the device
    from s2s.run import run_path
    from s2s.training.planning import with_recipe
    from s2s.training.session import default_name

    config = composed.config
    world = World(device=pick_device(config.train.device, "train.device"))
    return with_recipe(composed, plugins, world, run_path(config.run or default_name(composed, plugins)))[0]


if __name__ == "__main__":
    sys.exit(main())
