"""From the configuration of s2s-generate to a generator: the run, its checkpoint, and the search laid over its own."""

from __future__ import annotations

__all__ = ["Loaded", "load"]

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from s2s.cli.outputs import made_of
from s2s.compose import Composed, recompose
from s2s.distributed import pick_device
from s2s.errors import ConfigError
from s2s.generator import Generator
from s2s.run import find_run, load_run

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.plugin import Plugins


class Loaded(NamedTuple):
    """A generator, and what its outputs depend on."""

    generator: Generator
    made_of: dict[str, Any]


def load(composed: Composed[GenerateConfig], plugins: Plugins) -> Loaded:
    """Load the checkpoint; what `search` does not say is as in the run."""
    config = composed.config
    if not config.run:
        raise ConfigError("run: which model? Give run=NAME, a run directory, or run=last")
    if config.threads:
        torch.set_num_threads(config.threads)
    device = pick_device(config.device, "device")
    run = load_run(find_run(config.run), config.checkpoint, plugins, device)
    given = {"search": composed.given.get("search", {})}
    chosen = recompose(run.config, given, plugins).search
    search = plugins.registry.get("search", chosen.name).build(chosen)
    return Loaded(
        Generator(run.model, run.task, search, device, config),
        made_of(config, run.checkpoint_path, chosen, str(device)),
    )
