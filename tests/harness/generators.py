"""A generator over a model in memory, on the CPU."""

from __future__ import annotations

__all__ = ["generator_of"]

from typing import TYPE_CHECKING

from s2s.generation.generator import Generator
from s2s.generation.searching import Searcher

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.data.source_shape import SourceShape
    from s2s.decoding import Search
    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins
    from s2s.task import Task


def generator_of(
    model: Seq2Seq,
    task: Task,
    search: Search,
    config: GenerateConfig | None = None,
    plugins: Plugins | None = None,
    sources: SourceShape | None = None,
) -> Generator:
    """The generator that the options describe."""
    return Generator(task, Searcher.build(model, task, search, "cpu", config, plugins), plugins, sources)
