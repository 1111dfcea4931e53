"""How many processes decode, and the share of each."""

from __future__ import annotations

__all__ = ["resolved", "shared"]

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s import ConfigError
from s2s.backend import available_memory
from s2s.data import n_workers
from s2s.decoding import Hypothesis, SearchResult
from s2s_workers import MANY, size_of
from s2s_workers.processes import n_useful_processes, run_in_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.decoding import SourceSentence
    from s2s_workers import WorkerOptions

MIN_PER_WORKER = 8
"""Sentences below which another process costs more than it saves"""
BYTES_PER_WORKER = 2**29
"""What a search may need beside the weights, which all share"""


def resolved(config: WorkerOptions, device: torch.device) -> WorkerOptions:
    """With so many processes as decode; this one must have had a single thread until then."""
    if device.type != "cpu":
        if config.n_processes > 1:
            raise ConfigError(f"workers={config.workers} share a CPU, but device is {device}; give workers=1")
        return replace(config, workers=1)
    if config.threads > 1:
        raise ConfigError(
            f"workers={config.workers} threads={config.threads}: each worker has one thread; give one of both"
        )
    torch.set_num_threads(1)
    return replace(config, workers=config.workers or _idle_cores(config))


def _idle_cores(config: WorkerOptions) -> int:
    """As many as this process may use and are idle, but no more than a file of input keeps busy."""
    x, n_bytes = torch.ones(256, 1024), size_of(config.input)
    most = min(n_workers(0), quota(), n_bytes // (MANY // 2) if n_bytes else n_workers(0))
    return n_useful_processes(most, lambda: x @ x.T)


def quota(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores whose time a container may use, which a short measurement does not show."""
    try:
        microseconds, period = map(int, file.read_text().split())
    except (OSError, ValueError):  # no such file, or "max"
        return sys.maxsize
    return max(1, microseconds // period)


def shared(
    search: Callable[[Sequence[SourceSentence]], Iterable[Iterable[SearchResult]]],
    sentences: Sequence[SourceSentence],
    workers: int,
) -> Iterator[Iterable[SearchResult]] | None:
    """The results of the sentences, each process taking every n-th; None for too few of them."""
    n = min(workers, len(sentences) // MIN_PER_WORKER, available_memory().n_bytes // BYTES_PER_WORKER)
    if n < 2:
        return None
    shares = [sentences[i::n] for i in range(n)]
    values = run_in_processes([lambda share=share: map(_as_values, search(share)) for share in shares])  # type: ignore[misc]
    return map(_from_values, values)


def _as_values(results: Iterable[SearchResult]) -> list[tuple[int, list[dict[str, Any]]]]:
    """As JSON can hold them, without loss of precision."""
    return [(result.index, [asdict(hypothesis) for hypothesis in result.hypotheses]) for result in results]


def _from_values(values: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[SearchResult]:
    return [SearchResult(index, [Hypothesis(**fields) for fields in hypotheses]) for index, hypotheses in values]
