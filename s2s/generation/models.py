"""The model that writes outputs: that of one run, or several combined by plugins."""

from __future__ import annotations

__all__ = ["Models", "load_models"]

from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.errors import ConfigError
from s2s.io.atomic import sha256
from s2s.run import find_run, load_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import torch

    from s2s.config import GenerateConfig
    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins
    from s2s.run import Run


class Models(NamedTuple):
    """The models of one command."""

    first: Run
    """Its task is used, and its search unless the options name another"""
    directory: Path
    """Of the first run"""
    model: Seq2Seq
    members: Sequence[Seq2Seq]
    """The models of which `model` consists"""
    made_of: dict[str, Any]
    """What identifies the weights"""
    description: str
    """What is combined, in words; empty for a single model"""


def load_models(config: GenerateConfig, plugins: Plugins, device: torch.device) -> Models:
    """Load the models that the options name: one run, or several combined by plugins."""
    combined: Models | None = plugins.hook.s2s_load_models(config=config, plugins=plugins, device=device)
    if combined is not None:
        return combined
    names, checkpoints = (value if isinstance(value, list) else [value] for value in (config.run, config.checkpoint))
    if len(names) > 1 or len(checkpoints) > 1:
        raise ConfigError(
            "several of run and checkpoint: no loaded plugin combines models." + plugins.registry.absent_hint()
        )
    directory = find_run(names[0])
    run = load_run(directory, checkpoints[0], plugins, device)
    made_of = {"checkpoint": sha256(run.checkpoint_path / "MANIFEST.json")}
    return Models(run, directory, run.model, [run.model], made_of, "")
