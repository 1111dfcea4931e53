"""s2s-generate workers=N: processes on a CPU that share the weights and the buffered inputs. No torch at import."""

from __future__ import annotations

__all__ = ["WorkerOptions", "s2s_configure_generation", "s2s_register", "s2s_run_search"]

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Registry, hookimpl
from s2s.config import NEUTRAL, OF_MODELS, THREADS, GenerateConfig, refuse_outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.decoding import SearchResult, SourceSentence


MANY = 2000
"""Bytes of input, some twenty sentences"""


@dataclass(kw_only=True)
class WorkerOptions(GenerateConfig):
    """Processes that search."""

    workers: int | None = field(default=None, metadata=OF_MODELS | NEUTRAL)
    """Processes on a CPU that share the weights and the buffered inputs; with more than one, each has one thread.
    0: as many as there are idle cores, measured at the start, and room in memory. null: on Linux 0 for a file of input
    that is more than some lines, if no threads are given, else 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside("", self, workers=THREADS)
        if self.workers not in (None, 1) and self.backend != "native":
            what = f"backend={self.backend} has threads of its own"
            raise ConfigError(f"{what}: give threads={self.workers} and no workers")

    @property
    def n_processes(self) -> int:
        return 1 if self.workers is None else self.workers


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(WorkerOptions)


@hookimpl
def s2s_configure_generation(config: WorkerOptions, device: Any) -> WorkerOptions | None:
    """With the number of processes."""
    if config.workers is None and (device.type != "cpu" or not worth_sharing(config)):
        return replace(config, workers=1)
    if config.workers == 1:
        return None
    from s2s_workers.sharing import resolved

    return resolved(config, device)


@hookimpl
def s2s_run_search(
    search: Callable[[Sequence[SourceSentence]], Iterable[Iterable[SearchResult]]],
    sentences: Sequence[SourceSentence],
    config: WorkerOptions,
) -> Iterator[Iterable[SearchResult]] | None:
    """In several processes, if there are enough sentences."""
    if config.n_processes == 1:
        return None
    from s2s_workers.sharing import shared

    return shared(search, sentences, config.n_processes)


def worth_sharing(config: GenerateConfig) -> bool:
    """Whether several processes are of use, and safe, where nothing is said of them.

    Elsewhere than on Linux libraries of the system may not survive a fork.
    """
    many = Path(config.input).is_file() and Path(config.input).stat().st_size > MANY
    return many and not config.threads and config.backend == "native" and sys.platform == "linux"
