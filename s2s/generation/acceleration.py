"""Makes loaded models decode as fast as they can on this machine: processes, library of linear maps, CUDA graphs."""

from __future__ import annotations

__all__ = ["accelerate", "resolve_matmul", "resolve_quantization", "share_cores", "torch_threads"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from s2s.backend.cuda_graph import graph_decoding
from s2s.backend.device_types import device_of
from s2s.backend.host import keep_freed_memory
from s2s.backend.linear import LinearBackend, Quantization, deterministic_backend, has_int8, prepack
from s2s.backend.operators.operator import description
from s2s.errors import ConfigError
from s2s.generation.options import measures_products
from s2s.generation.workers import describe_workers, resolve_workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.config import GenerateConfig
    from s2s.generation.models import Models
    from s2s.model import Seq2Seq


def share_cores(config: GenerateConfig, device: torch.device) -> GenerateConfig:
    """The configuration with the number of processes that search; torch has one thread if cores were counted for them,
    or if there are several."""
    resolved = resolve_workers(config, device.type)
    if device.type == "cpu" and (resolved.workers != config.workers or resolved.n_processes > 1):
        torch.set_num_threads(1)
    return resolved


@contextmanager
def torch_threads(config: GenerateConfig, device: torch.device) -> Iterator[None]:
    """Set torch's number of threads inside the block to that of the options, or to one if they give none, since
    functions in C run in one thread; afterwards to that of the options, or to the number before."""
    before, n_given = torch.get_num_threads(), config.threads
    if device.type == "cpu" and config.n_search_threads > 1:
        n_given = 1
    torch.set_num_threads(n_given or 1)
    try:
        yield
    finally:
        torch.set_num_threads(n_given or before)


def resolve_matmul(config: GenerateConfig, model: Seq2Seq, device: torch.device) -> LinearBackend:
    """The backend of linear maps; for output files never chosen by timing, since shards and resumed runs must agree."""
    measured = measures_products(config) or not _is_fp32_cpu(config, device)
    if config.matmul == "exact" or (config.matmul == "auto" and not measured):
        return deterministic_backend(model)
    return config.matmul


def resolve_quantization(config: GenerateConfig, models: Models, device: torch.device) -> Quantization:
    """That of the options, or for auto the one in which the models were published, if this machine has it."""
    if config.quantization != "auto":
        return config.quantization
    published = config.backend == "native" and models.int8 and _is_fp32_cpu(config, device)
    return "int8" if published and has_int8() else "none"


def accelerate(models: Models, device: torch.device, config: GenerateConfig) -> str:
    """Capture decoding steps on a GPU, prepack linear maps on a CPU; returns a description of what was chosen."""
    on_cpu = _is_fp32_cpu(config, device)
    if config.quantization not in ("auto", "none") and not on_cpu:
        raise ConfigError(
            f"quantization={config.quantization} works on a CPU in fp32, but device is {device} and "
            f"precision={config.precision}; give device=cpu precision=fp32, or leave quantization out"
        )
    has_graphs = device_of(device).supports_graphs
    if config.graph and not has_graphs:
        raise ConfigError(f"graph=true captures steps on a CUDA device, but device is {device}; leave it out")
    if has_graphs and config.graph is not False:
        return f"{device} in {config.precision}, {capture_steps(models.members, requested=bool(config.graph))}"
    if not on_cpu:
        return f"{device} in {config.precision}"
    keep_freed_memory()
    prepacked = prepack(models.model, config.matmul, resolve_quantization(config, models, device), models.int8)
    return ", ".join(filter(None, [str(device), describe_workers(config), description(), prepacked]))


def capture_steps(models: Sequence[Seq2Seq], *, requested: bool = False) -> str:
    """Capture the decoding steps of the models whose states support it; returns a description of which do.

    requested: whether the user has set graph=true, which makes it an error if no plugin can capture steps.
    """
    captured = [graph_decoding(model) for model in models]
    if all(captured):
        return "steps captured in CUDA graphs"
    if requested and not graph_decoding.implementations:
        raise ConfigError("graph=true: no loaded plugin captures steps; leave it out")
    if not graph_decoding.implementations:
        return "steps eager, since no plugin captures them"
    if not any(captured):
        return "steps eager, since the architecture's state does not support CUDA graphs"
    return f"steps of {sum(captured)} of {len(models)} models captured in CUDA graphs"


def _is_fp32_cpu(config: GenerateConfig, device: torch.device) -> bool:
    return device.type == "cpu" and config.precision == "fp32"
