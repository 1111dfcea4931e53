"""Several models that write one output: an ensemble, and shallow fusion with a language model.

`run=[a,b]`, several checkpoints of a run, and `fusion` of s2s-generate; no torch at import.
"""

from __future__ import annotations

__all__ = ["FusionOptions", "s2s_load_models", "s2s_register"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from s2s import Registry, hookimpl
from s2s.config import NEUTRAL, OF_MODELS, GenerateConfig, at_least, check_all_used, check_ranges

if TYPE_CHECKING:
    import torch

    from s2s import Plugins
    from s2s.generation import Models

OF_WEIGHTS = OF_MODELS | NEUTRAL
"""The language model's weights are identified in `Models.made_of`."""


@dataclass(kw_only=True)
class FusionOptions(GenerateConfig):
    """A language model fused with the models."""

    fusion: str = field(default="", metadata=OF_WEIGHTS)
    """Shallow fusion: run of task=language_model, with the same vocabulary, whose log-probabilities are added."""
    fusion_weight: float = field(default=0.3, metadata=OF_WEIGHTS)
    """Factor on the language model's log-probabilities."""
    fusion_checkpoint: str = field(default="auto", metadata=OF_WEIGHTS)
    """Checkpoint of the language model, as `checkpoint`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("", self, fusion_weight=at_least(0))
        for option in ("fusion_weight", "fusion_checkpoint"):
            check_all_used(self, option, "fusion", self.fusion)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(FusionOptions)


@hookimpl
def s2s_load_models(config: FusionOptions, plugins: Plugins, device: torch.device) -> Models | None:
    """The models that `run`, `checkpoint` and `fusion` name; None if it is a single one."""
    from s2s_ensemble.models import load_models, names_of

    names = names_of(config)
    return load_models(names, config, plugins, device) if len(names) > 1 or config.fusion else None
