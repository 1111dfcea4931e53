"""Processes or threads on a CPU that share the weights and the buffered inputs: how many, and the share of each."""

from __future__ import annotations

__all__ = ["describe_workers", "resolve_workers", "search_shared"]

import hashlib
import os
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.backend.cores import usable_cores
from s2s.backend.memory import available_memory
from s2s.decoding.sentences import Hypothesis, SearchResult
from s2s.errors import ConfigError
from s2s.generation.processes import n_useful_processes, run_in_processes
from s2s.generation.threads import run_in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.config import GenerateConfig
    from s2s.decoding import SourceSentence

    SearchSentences = Callable[[Sequence[SourceSentence]], Iterable[Iterable[SearchResult]]]

MIN_SHARED_BYTES = 2000
"""Bytes of input, about twenty sentences, above which several processes are worth their start"""
MIN_PER_WORKER = 8
"""Sentences below which another process or thread costs more than it saves"""
HASHED = bytes(2**20)
"""What is hashed to measure cores, in about 2 ms"""
BYTES_PER_WORKER = 2**29
"""Memory that a search may need besides the weights, which all share"""


def resolve_workers(config: GenerateConfig, device_type: str, *, search_in_c: bool = False) -> GenerateConfig:
    """The configuration with the number of processes that search, or of threads where functions in C are the search.

    With several processes, this process must have one thread only until they are started. search_in_c: threads of such
    a search seldom wait for each other, need no copies of results, and cost nothing while a core is busy otherwise.
    """
    if config.workers == 1 or (config.workers is None and not (device_type == "cpu" and _worth_sharing(config))):
        return config
    if search_in_c and config.workers is None:
        return replace(config, workers=1, threads=_most_workers(config))
    if config.workers is None and sys.platform != "linux":  # where system libraries may not survive a fork
        return config
    if device_type != "cpu":
        if config.n_processes > 1:
            raise ConfigError(f"workers={config.workers} share a CPU, but device is {device_type}; give workers=1")
        return replace(config, workers=1)
    if config.threads > 1:
        raise ConfigError(
            f"workers={config.workers} threads={config.threads}: each worker has one thread; give one of both"
        )
    return replace(config, workers=config.workers or _idle_cores(config))


def describe_workers(config: GenerateConfig) -> str:
    """Processes or threads that search, in words; empty: one."""
    n, kind = (config.n_processes, "processes") if config.n_processes > 1 else (config.n_search_threads, "threads")
    return f"{n} {kind}" if n > 1 else ""


def search_shared(
    search: SearchSentences, sentences: Sequence[SourceSentence], config: GenerateConfig, device_type: str
) -> Iterator[Iterable[SearchResult]] | None:
    """The results for all sentences, searched by several processes or threads; None if there is work for one only."""
    n = max(config.n_processes, config.n_search_threads) if device_type == "cpu" else 1
    parts = _shares(sentences, n)
    if len(parts) == 1:
        return None
    return (_in_processes if config.n_processes > 1 else _in_threads)(search, parts)


def _worth_sharing(config: GenerateConfig) -> bool:
    """Whether to use several processes or threads by default: they must be useful and change nothing else.

    torch's own products and those in bf16 depend on the other sentences of a batch; each of several ranks on this
    machine has its own share of the cores.
    """
    is_only_rank = os.environ.get("LOCAL_WORLD_SIZE", "1") == "1"
    can_share = is_only_rank and config.is_batch_invariant and not config.threads
    return can_share and _size_of(config.input) > MIN_SHARED_BYTES


def _size_of(path: str) -> int:
    """Bytes of an input file; 0 for standard input."""
    return Path(path).stat().st_size if Path(path).is_file() else 0


def _most_workers(config: GenerateConfig) -> int:
    """Number of cores that this process may use, but no more than an input file keeps busy."""
    cores, n_bytes = usable_cores(), _size_of(config.input)
    return min(cores, n_bytes // (MIN_SHARED_BYTES // 2)) if n_bytes else cores


def _idle_cores(config: GenerateConfig) -> int:
    """How many of these cores are idle.

    Measured with a hash function that keeps all arithmetic units of a core busy, as products do: one core with two
    threads is no faster for both than for one.
    """
    return n_useful_processes(_most_workers(config), lambda: hashlib.blake2b(HASHED).digest())


def _shares(sentences: Sequence[SourceSentence], n: int) -> list[Sequence[SourceSentence]]:
    """Every n-th sentence for each of n workers, or of fewer if there are too few sentences or too little memory."""
    if n > 1:
        n = min(n, len(sentences) // MIN_PER_WORKER, available_memory().n_bytes // BYTES_PER_WORKER)
    return [sentences[i::n] for i in range(n)] if n > 1 else [sentences]


def _in_processes(
    search: SearchSentences, parts: Iterable[Sequence[SourceSentence]]
) -> Iterator[Iterable[SearchResult]]:
    """The results of all parts, each searched by a process."""
    values = run_in_processes([lambda part=part: map(_as_values, search(part)) for part in parts])  # type: ignore[misc]
    return map(_from_values, values)


def _in_threads(search: SearchSentences, parts: Iterable[Sequence[SourceSentence]]) -> Iterator[Iterable[SearchResult]]:
    """The results of all parts, each searched by a thread."""
    return run_in_threads([partial(search, part) for part in parts])


def _as_values(results: Iterable[SearchResult]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Results as values that JSON can represent without loss of precision."""
    return [(result.index, [asdict(hypothesis) for hypothesis in result.hypotheses]) for result in results]


def _from_values(values: Iterable[tuple[int, list[dict[str, Any]]]]) -> list[SearchResult]:
    return [SearchResult(index, [Hypothesis(**fields) for fields in hypotheses]) for index, hypotheses in values]
