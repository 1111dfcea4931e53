"""s2s-train: from a configuration to a trained model; run again, it continues."""

from __future__ import annotations

__all__ = ["main"]

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.config import Config
from s2s.stopping import StopSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import Composed
    from s2s.plugin import Plugins


def train(composed: Composed[Config], plugins: Plugins, options: Options) -> int:
    """Train, or continue, or say that all is done."""
    with StopSignal().listening() as stop:
        from s2s import distributed  # torch, which --help does without
        from s2s.session import dry_run, train_in

        config = composed.config.train
        world = distributed.init(config.device, timedelta(seconds=config.timeout))
        try:
            if options.dry_run:
                return dry_run(composed, plugins, world)
            return train_in(composed, plugins, world, stop, quiet=options.quiet)
        finally:
            world.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(Config, train, argv)


if __name__ == "__main__":
    sys.exit(main())
