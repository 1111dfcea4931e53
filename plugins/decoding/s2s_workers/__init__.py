"""s2s-generate workers=N and threads=N: processes, or threads, on a CPU that share the weights and the buffered inputs.

No torch at import.
"""

from __future__ import annotations

__all__ = ["WorkerOptions", "s2s_configure_generation", "s2s_register", "s2s_run_search"]

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Registry, hookimpl
from s2s.config import NEUTRAL, OF_MODELS, THREADS, GenerateConfig, check_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.decoding import SearchResult, SourceSentence


MANY = 2000
"""Bytes of input, about twenty sentences"""


@dataclass(kw_only=True)
class WorkerOptions(GenerateConfig):
    """Processes and threads that search."""

    workers: int | None = field(default=None, metadata=OF_MODELS | NEUTRAL)
    """Processes on a CPU that share the weights and the buffered inputs; with more than one, each has one thread.
    0: as many as there are idle cores, measured at the start. null: on Linux 0 for an input file of more than a few
    lines, if no threads are given, else 1. No more of them search at a time than fit in memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges("", self, workers=THREADS)
        if self.workers not in (None, 1) and self.backend != "native":
            what = f"backend={self.backend} has threads of its own"
            raise ConfigError(f"{what}: give threads={self.workers} and no workers")

    @property
    def n_processes(self) -> int:
        return 1 if self.workers is None else self.workers

    @property
    def is_batch_invariant(self) -> bool:
        """Whether an output does not depend on the sentences searched with it."""
        return self.backend == "native" and self.precision == "fp32" and self.matmul != "torch"

    @property
    def n_search_threads(self) -> int:
        return self.threads if self.threads > 1 and self.is_batch_invariant else 1

    @property
    def n_torch_threads(self) -> int:
        return 1 if self.n_search_threads > 1 else self.threads

    @property
    def parallelism(self) -> str:
        n, kind = (self.n_processes, "processes") if self.n_processes > 1 else (self.n_search_threads, "threads")
        return f"{n} {kind}" if n > 1 else ""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(WorkerOptions)


@hookimpl(trylast=True)
def s2s_configure_generation(config: WorkerOptions, device: Any) -> WorkerOptions | None:
    """The configuration with the number of processes resolved."""
    if config.workers == 1 or (config.workers is None and not (device.type == "cpu" and worth_sharing(config))):
        return None
    from s2s_workers.sharing import resolved

    return resolved(config, device)


@hookimpl
def s2s_run_search(
    search: Callable[[Sequence[SourceSentence]], Iterable[Iterable[SearchResult]]],
    sentences: Sequence[SourceSentence],
    config: WorkerOptions,
    device: Any,
) -> Iterator[Iterable[SearchResult]] | None:
    """Search in several processes or threads, if there are enough sentences."""
    n = max(config.n_processes, config.n_search_threads)
    if n == 1 or device.type != "cpu":
        return None
    from s2s_workers.sharing import in_processes, in_threads, shares

    parts = shares(sentences, n)
    if len(parts) == 1:
        return None
    return (in_processes if config.n_processes > 1 else in_threads)(search, parts)


def worth_sharing(config: WorkerOptions) -> bool:
    """Whether to use several processes by default: they must be useful and change nothing else.

    Outside Linux, system libraries may not survive a fork; torch's own products and those in bf16 depend on the other
    sentences of a batch; each of several ranks on this machine has its own share of the cores.
    """
    alone = sys.platform == "linux" and os.environ.get("LOCAL_WORLD_SIZE", "1") == "1"
    return alone and config.is_batch_invariant and not config.threads and size_of(config.input) > MANY


def size_of(path: str) -> int:
    """Bytes of an input file; 0 for standard input."""
    return Path(path).stat().st_size if Path(path).is_file() else 0
