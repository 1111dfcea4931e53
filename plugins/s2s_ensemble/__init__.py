"""Several models that write one output: an ensemble, and shallow fusion with a language model.

`run=[a,b]`, several checkpoints of a run, and `fusion` of s2s-generate; no torch at import.
"""

from __future__ import annotations

__all__ = ["s2s_load_models"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    import torch

    from s2s import Plugins
    from s2s.config import GenerateConfig
    from s2s.generation import Models


@hookimpl
def s2s_load_models(config: GenerateConfig, plugins: Plugins, device: torch.device) -> Models | None:
    """What `run`, `checkpoint` and `fusion` name; None if it is a single model."""
    from s2s_ensemble.models import load_models, names_of

    names = names_of(config)
    return load_models(names, config, plugins, device) if len(names) > 1 or config.fusion else None
