"""What s2s-generate needs in order to choose among the outputs of a search."""

from __future__ import annotations

__all__ = ["build_utility", "resolve_candidates"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.errors import ConfigError
from s2s.metrics import build_metrics

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.metrics import Metric
    from s2s.plugin import Plugins
    from s2s.registry import Choice
    from s2s.task import Task


def resolve_candidates(config: GenerateConfig, search: Choice) -> GenerateConfig:
    """With `candidates` set to the beam size where it is not given; raises ConfigError for a single candidate."""
    if not config.reranks:
        return config
    beam = getattr(search, "beam", None)
    if beam and config.candidates > beam:
        raise ConfigError(f"candidates={config.candidates} are more than search.beam={beam} finds; give search.beam=N")
    chosen = replace(config, candidates=config.candidates or beam or 1)
    if chosen.n_candidates < 2:
        asked = f"mbr={config.mbr}" if config.mbr else f"coverage={config.coverage:g}"
        raise ConfigError(f"{asked} chooses among outputs, and search={search.name} gives one; give candidates=N")
    return chosen


def build_utility(config: GenerateConfig, task: Task, plugins: Plugins) -> Metric | None:
    """The metric by which candidates are ranked."""
    return build_metrics(task, plugins.registry, [config.mbr])[0] if config.mbr else None
