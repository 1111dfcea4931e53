"""From the configuration of s2s-generate to a generator: the run, its checkpoint, and its search."""

from __future__ import annotations

__all__ = ["MODEL_OPTIONS", "Loaded", "LoadedModels", "load", "load_ready"]

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from s2s.backend import kernels
from s2s.backend.decoding_graph import graph_decoding
from s2s.backend.device import keep_freed_memory
from s2s.backend.linear import LinearBackend, deterministic_backend, prepack
from s2s.compose import ComposedConfig, recompose
from s2s.config import GenerateConfig
from s2s.data.encode import n_workers
from s2s.decoding.ensemble import member_models
from s2s.distributed import pick_device
from s2s.errors import ConfigError
from s2s.generation.generator import Generator
from s2s.generation.models import Models, load_models, refuse_if_several
from s2s.generation.output_stream import made_of
from s2s.generation.reranking import build_utility, resolve_candidates
from s2s.io.workers import n_useful_processes
from s2s.plugin import Plugins

if TYPE_CHECKING:
    from s2s.decoding import Search
    from s2s.model import Seq2Seq
    from s2s.registry import Choice


class Loaded(NamedTuple):
    """A generator, and what its outputs depend on."""

    generator: Generator
    made_of: dict[str, Any]
    how: str
    """A description of what computes"""


@dataclass(frozen=True)
class LoadedModels:
    """Models on their device, made ready to decode; all generators that share them are made here."""

    models: Models
    device: torch.device
    config: GenerateConfig
    """Options that concern the models are settled in it"""
    plugins: Plugins
    how: str
    """A description of what computes"""

    def generator(self, composed: ComposedConfig[GenerateConfig]) -> Loaded:
        """A generator by other options of search and output; what `search` does not say is as in the run."""
        task = self.models.first.task
        settled = {name: getattr(self.config, name) for name in MODEL_OPTIONS}
        chosen = recompose(self.models.first.config, {"search": composed.given.get("search", {})}, self.plugins).search
        config = resolve_candidates(replace(composed.config, **settled), chosen)
        search, how = self._search(chosen, config)
        utility = build_utility(config, task, self.plugins)
        generator = Generator(self.models.model, task, search, self.device, config, utility)
        return Loaded(generator, made_of(generator.config, self.models.made_of, chosen, self.device.type), how)

    def _search(self, chosen: Choice, config: GenerateConfig) -> tuple[Search, str]:
        """The search, and a description of what computes."""
        if config.backend == "native":
            return self.plugins.registry.get("search", chosen.name).build(chosen), self.how
        folder = Path(config.exported) if config.exported else self.models.directory / "export" / config.backend
        engine = self.plugins.registry.get("inference_engine", config.backend)
        search = engine.build(folder, self.models.first, config, chosen, self.device)
        return search, search.describe()


MODEL_OPTIONS = (
    *("run", "checkpoint", "fusion", "fusion_weight", "fusion_checkpoint", "device", "precision", "threads"),
    *("workers", "matmul", "graph", "quantization", "backend", "exported"),
)
"""Options that are settled when models are loaded; all others may differ from one call to the next"""


def load(composed: ComposedConfig[GenerateConfig], plugins: Plugins) -> Loaded:
    """Load the checkpoint; what `search` does not say is as in the run."""
    return load_ready(composed.config, plugins).generator(composed)


def load_ready(config: GenerateConfig, plugins: Plugins) -> LoadedModels:
    """Load what `run`, `checkpoint` and `fusion` name, and make it ready to decode as fast as it can here."""
    if not config.run:
        raise ConfigError("run: which model? Give run=NAME, a run directory, or run=last")
    device = pick_device(config.device, "device", int(os.environ.get("LOCAL_RANK", "0")))
    config = replace(config, workers=_workers(config, device))
    if config.threads or config.workers > 1:
        torch.set_num_threads(config.threads or 1)
    models = load_models(config, plugins, device)
    config = replace(config, matmul=_matmul(models.model, device, config))
    if config.backend == "native":
        if config.exported:
            raise ConfigError(f"exported={config.exported} is a model for another backend; give backend=ctranslate2")
        how = "; ".join(filter(None, [accelerate(models.model, device, config), models.how]))
        return LoadedModels(models, device, config, plugins, how)
    if config.backend not in plugins.registry.names("inference_engine"):
        known = plugins.registry.known("inference_engine")
        raise ConfigError(f"backend={config.backend}: neither native nor a registered inference engine.{known}")
    refuse_if_several(config)
    return LoadedModels(models, device, config, plugins, "")


def _workers(config: GenerateConfig, device: torch.device) -> int:
    """How many processes decode; this one must have had a single thread until then."""
    if config.workers == 1 or device.type != "cpu":
        if config.workers > 1:
            raise ConfigError(f"workers={config.workers} share a CPU, but device is {device}; give workers=1")
        return 1
    if config.threads > 1:
        raise ConfigError(
            f"workers={config.workers} threads={config.threads}: each worker has one thread; give one of both"
        )
    torch.set_num_threads(1)
    x = torch.ones(256, 1024)
    return config.workers or n_useful_processes(n_workers(0), lambda: x @ x.T)


def _matmul(model: Seq2Seq, device: torch.device, config: GenerateConfig) -> LinearBackend:
    """The backend of linear maps; for output files never chosen by timing, since shards and resumed runs must agree."""
    measured = config.output == "-" or not _computes_fp32(device, config) or config.quantization != "none"
    if config.matmul == "exact" or (config.matmul == "auto" and not measured):
        return deterministic_backend(model)
    return config.matmul


def _graph_members(models: list[Seq2Seq]) -> str:
    """Capture the steps of those models whose states support it; says which do."""
    captured = [graph_decoding(model) for model in models]
    if all(captured):
        return "steps captured in CUDA graphs"
    if not any(captured):
        return "steps eager, since the architecture's state does not support CUDA graphs"
    return f"steps of {sum(captured)} of {len(models)} models captured in CUDA graphs"


def _computes_fp32(device: torch.device, config: GenerateConfig) -> bool:
    return device.type == "cpu" and config.precision == "fp32"


def accelerate(model: Seq2Seq, device: torch.device, config: GenerateConfig) -> str:
    """Make the model ready to decode as fast as it can on this machine; says what was chosen."""
    on_cpu = _computes_fp32(device, config)
    if config.quantization != "none" and not on_cpu:
        raise ConfigError(
            f"quantization={config.quantization} works on a CPU in fp32, but device is {device} and "
            f"precision={config.precision}; give device=cpu precision=fp32, or leave quantization out"
        )
    if config.graph and device.type != "cuda":
        raise ConfigError(f"graph=true captures steps on a CUDA device, but device is {device}; leave it out")
    if device.type == "cuda" and config.graph is not False:
        return f"{device} in {config.precision}, {_graph_members(member_models(model))}"
    if not on_cpu:
        return f"{device} in {config.precision}"
    keep_freed_memory()
    workers = f"{config.workers} processes, " if config.workers > 1 else ""
    return f"{device}, {workers}{kernels.description()}, {prepack(model, config.matmul, config.quantization)}"
