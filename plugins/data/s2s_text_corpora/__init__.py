"""The corpora of text files: `parallel` and `monolingual`. No torch at import."""

from __future__ import annotations

__all__ = ["MonolingualConfig", "ParallelConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice, Registry, hookimpl


@dataclass(kw_only=True)
class ParallelConfig(Choice):
    """Pairs of lines: two parallel files, or one file of pairs (.tsv, .jsonl); .gz files are read directly."""

    files: list[str] = field(default_factory=list)
    """[corpus.en,corpus.de], or a file of pairs."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8 or not a pair: stop, or drop and count it."""
    documents: bool = False
    """Whether pairs that follow one another are a document, until an empty line, another `document` (or `doc`) of JSON
    lines, or another third column of a TSV; for task.context, which sets it."""


@dataclass(kw_only=True)
class MonolingualConfig(Choice):
    """Lines of text as targets without a source; .gz files are read directly."""

    files: list[str] = field(default_factory=list)
    """Files with one sentence per line."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8: stop, or drop and count it."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.corpus("parallel", ParallelConfig, "s2s_text_corpora.parallel:ParallelCorpus")
    registry.corpus("monolingual", MonolingualConfig, "s2s_text_corpora.monolingual:MonolingualCorpus")
