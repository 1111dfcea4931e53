"""Builds a generator from the configuration of s2s-generate: the run, its checkpoint, and its search."""

from __future__ import annotations

__all__ = ["EngineInput", "LoadedModels", "load", "load_for_decoding"]

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from s2s.config import GenerateConfig
from s2s.distributed import pick_device
from s2s.errors import ConfigError
from s2s.generation.acceleration import accelerate, resolve_matmul, resolve_quantization, share_cores, torch_threads
from s2s.generation.generator import Generator
from s2s.generation.inputs import output_constraint, registered_constraints
from s2s.generation.models import Models, load_models
from s2s.generation.options import LoadedGenerator, chosen_search, provenance, resolved_options
from s2s.generation.searching import Searcher
from s2s.plugin import Plugins

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.decoding import Search
    from s2s.registry import Choice
    from s2s.run import Run
    from s2s.task import Constraint


class EngineInput(NamedTuple):
    """What an inference engine is built from."""

    directory: Path
    """Of the run"""
    run: Run
    config: GenerateConfig
    search: Choice
    device: torch.device
    constraint: Constraint | None
    """On every output"""


@dataclass(frozen=True)
class LoadedModels:
    """Models on their device, ready to decode; builds all generators that share them."""

    models: Models
    device: torch.device
    config: GenerateConfig
    """With the options that concern the models resolved"""
    plugins: Plugins
    description: str
    """What runs the computation, in words"""

    def search_config(self, composed: ComposedConfig[GenerateConfig]) -> Choice:
        """The search; options that are not given are those of the run."""
        return chosen_search(composed, self.models.first.config, self.plugins)

    def generator(self, composed: ComposedConfig[GenerateConfig]) -> LoadedGenerator:
        """A generator with other search and output options; search options that are not given are those of the run."""
        first = self.models.first
        chosen = self.search_config(composed)
        config = resolved_options(composed, first.config, chosen, self.config)
        search, description = self._search(chosen, config)
        searcher = Searcher.build(
            self.models.model, first.task, search, self.device, config, self.plugins, first.shortlist
        )
        generator = Generator(first.task, searcher, self.plugins, first.sources)
        recorded = provenance(generator.config, self.models.provenance, chosen, self.device.type)
        return LoadedGenerator(generator, recorded, description, first.passed_over)

    def _search(self, chosen: Choice, config: GenerateConfig) -> tuple[Search, str]:
        """The search, and what runs the computation, in words."""
        if config.backend == "native":
            return self.plugins.registry.get("search", chosen.name).build(chosen), self.description
        constraint = output_constraint(config, self.models.first.task, registered_constraints(self.plugins))
        engine_input = EngineInput(self.models.directory, self.models.first, config, chosen, self.device, constraint)
        search = self.plugins.registry.get("inference_engine", config.backend).build(engine_input)
        return search, search.describe()


def load(composed: ComposedConfig[GenerateConfig], plugins: Plugins) -> LoadedGenerator:
    """Load the checkpoint; search options that are not given are those of the run."""
    return load_for_decoding(composed.config, plugins).generator(composed)


def load_for_decoding(config: GenerateConfig, plugins: Plugins) -> LoadedModels:
    """Load the models that the options name, and make them decode as fast as they can on this machine."""
    if not config.run:
        raise ConfigError("run: which model? Give run=NAME, a run directory, or run=last")
    device = pick_device(config.device, "device", int(os.environ.get("LOCAL_RANK", "0")))
    config = share_cores(config, device)
    models = load_models(config, plugins, device)
    if config.backend != "native":
        config = replace(config, quantization=resolve_quantization(config, models, device))
        _check_supported(config, models, plugins)
        return LoadedModels(models, device, config, plugins, "")
    with torch_threads(config, device):
        config = replace(config, quantization=resolve_quantization(config, models, device))
        config = replace(config, matmul=resolve_matmul(config, models.model, device))
        how = accelerate(models, device, config)
    return LoadedModels(models, device, config, plugins, "; ".join(filter(None, [how, models.description])))


def _check_supported(config: GenerateConfig, models: Models, plugins: Plugins) -> None:
    """Raise ConfigError for a backend that is no inference engine, and for what engines do not do."""
    if config.backend not in plugins.registry.names("inference_engine"):
        known = plugins.registry.known_hint("inference_engine")
        raise ConfigError(f"backend={config.backend}: neither native nor a registered inference engine.{known}")
    if len(models.members) > 1:
        raise ConfigError(f"backend={config.backend} serves one model, not {models.description}; give backend=native")
    if config.transforms:
        raise ConfigError(f"backend={config.backend} has no transforms; leave them out, or give backend=native")
    if config.matmul != "auto" or config.graph is not None:
        option = "graph" if config.matmul == "auto" else "matmul"
        raise ConfigError(f"backend={config.backend} does not read {option}; leave it out, or give backend=native")
