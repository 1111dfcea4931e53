"""How many processes or threads decode, and the share of each."""

from __future__ import annotations

__all__ = ["in_processes", "in_threads", "resolved", "shares"]

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from s2s import ConfigError
from s2s.backend import available_memory, usable_cores
from s2s.decoding import Hypothesis, SearchResult
from s2s_workers import MANY, size_of
from s2s_workers.processes import n_useful_processes, run_in_processes
from s2s_workers.threads import run_in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.decoding import SourceSentence
    from s2s_workers import WorkerOptions

    Search = Callable[[Sequence[SourceSentence]], Iterable[Iterable[SearchResult]]]

MIN_PER_WORKER = 8
"""Sentences below which another process or thread costs more than it saves"""
BYTES_PER_WORKER = 2**29
"""Memory that a search may need besides the weights, which all share"""


def resolved(config: WorkerOptions, device: torch.device) -> WorkerOptions:
    """The configuration with the number of processes that decode; until then this process must have one thread only."""
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
    """Number of idle cores that this process may use, but no more than an input file keeps busy."""
    x, n_bytes = torch.ones(256, 1024), size_of(config.input)
    cores = usable_cores()
    most = min(cores, n_bytes // (MANY // 2)) if n_bytes else cores
    return n_useful_processes(most, lambda: x @ x.T)


def shares(sentences: Sequence[SourceSentence], n: int) -> list[Sequence[SourceSentence]]:
    """Every n-th sentence for each of n workers, or of fewer if there are too few sentences or too little memory."""
    n = min(n, len(sentences) // MIN_PER_WORKER, available_memory().n_bytes // BYTES_PER_WORKER)
    return [sentences[i::n] for i in range(n)] if n > 1 else [sentences]


def in_processes(search: Search, parts: Iterable[Sequence[SourceSentence]]) -> Iterator[Iterable[SearchResult]]:
    """The results of all parts, each searched by a process."""
    values = run_in_processes([lambda part=part: map(_as_values, search(part)) for part in parts])  # type: ignore[misc]
    return map(_from_values, values)


def in_threads(search: Search, parts: Iterable[Sequence[SourceSentence]]) -> Iterator[Iterable[SearchResult]]:
    """The results of all parts, each searched by a thread."""
    return run_in_threads([partial(search, part) for part in parts])


def _as_values(results: Iterable[SearchResult]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Results as values that JSON can represent without loss of precision."""
    return [(result.index, [asdict(hypothesis) for hypothesis in result.hypotheses]) for result in results]


def _from_values(values: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[SearchResult]:
    return [SearchResult(index, [Hypothesis(**fields) for fields in hypotheses]) for index, hypotheses in values]
