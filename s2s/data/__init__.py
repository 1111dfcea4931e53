"""From raw text to batches: corpora, tokenisers, preparation, the order of the data.

The corpora of text files are registered here: `parallel` and `monolingual`.
"""

from __future__ import annotations

__all__ = [
    "DROP",
    "MONOLINGUAL",
    "PARALLEL",
    "UNK",
    "Corpora",
    "CorpusOptions",
    "FileForm",
    "Invalid",
    "MappedCorpus",
    "MonolingualConfig",
    "ParallelConfig",
    "Subwords",
    "first_misaligned_line",
    "missing",
    "numbered_lines",
    "parse_corpora",
    "read_lines",
    "read_pairs",
    "s2s_register",
    "train_subwords",
]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from s2s.data.corpora import Corpora, CorpusOptions, FileForm, parse_corpora
    from s2s.data.mapped_corpus import MappedCorpus
    from s2s.data.misalignment import first_misaligned_line
    from s2s.data.monolingual import MONOLINGUAL
    from s2s.data.parallel import PARALLEL, read_pairs
    from s2s.data.subwords import UNK, Subwords, train_subwords
    from s2s.data.text import DROP, Invalid, missing, numbered_lines, read_lines


@dataclass(kw_only=True)
class ParallelConfig(Choice):
    """Pairs of lines: two parallel files, or one file of pairs (.tsv, .jsonl); .gz is read as it is."""

    files: list[str] = field(default_factory=list)
    """[corpus.en,corpus.de], or a file of pairs."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8 or not a pair: stop, or drop and count it."""


@dataclass(kw_only=True)
class MonolingualConfig(Choice):
    """Lines of text as targets without a source; .gz is read as it is."""

    files: list[str] = field(default_factory=list)
    """One sentence a line."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8: stop, or drop and count it."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.corpus("parallel", ParallelConfig, "s2s.data.parallel:ParallelCorpus")
    registry.corpus("monolingual", MonolingualConfig, "s2s.data.monolingual:MonolingualCorpus")


__getattr__ = lazy_names(
    __name__, "corpora", "text", "mapped_corpus", "misalignment", "parallel", "monolingual", "subwords"
)
