"""s2s-generate workers=N: processes on a CPU that share the weights and the buffered inputs. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_configure_generation", "s2s_run_search"]

from typing import TYPE_CHECKING, Any

from s2s import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.config import GenerateConfig
    from s2s.decoding import SearchResult, SourceSentence


@hookimpl
def s2s_configure_generation(config: GenerateConfig, device: Any) -> GenerateConfig | None:
    """With the number of processes."""
    if config.workers == 1:
        return None
    from s2s_workers.sharing import resolved

    return resolved(config, device)


@hookimpl
def s2s_run_search(
    search: Callable[[Sequence[SourceSentence]], Iterable[Iterable[SearchResult]]],
    sentences: Sequence[SourceSentence],
    config: GenerateConfig,
) -> Iterator[Iterable[SearchResult]] | None:
    """In several processes, if there are enough sentences."""
    if config.workers == 1:
        return None
    from s2s_workers.sharing import shared

    return shared(search, sentences, config.workers)
