"""From raw text to batches: corpora, tokenisers, preparation, the order of the data."""

from __future__ import annotations

__all__ = [
    "DROP",
    "INVALID_UTF8",
    "NUL",
    "UNK",
    "Corpora",
    "CorpusOptions",
    "FileForm",
    "Invalid",
    "Line",
    "MappedCorpus",
    "PreparationSpec",
    "Subwords",
    "blocks",
    "first_misaligned_line",
    "missing",
    "n_workers",
    "numbered_lines",
    "open_bytes",
    "pair_format",
    "parse_corpora",
    "prepare",
    "read_lines",
    "train_subwords",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.data.corpora import Corpora, CorpusOptions, FileForm, parse_corpora
    from s2s.data.encode import n_workers
    from s2s.data.mapped_corpus import MappedCorpus
    from s2s.data.misalignment import first_misaligned_line
    from s2s.data.preparation import prepare
    from s2s.data.preparation_spec import PreparationSpec
    from s2s.data.subwords import UNK, Subwords, train_subwords
    from s2s.data.text import (
        DROP,
        INVALID_UTF8,
        NUL,
        Invalid,
        Line,
        blocks,
        missing,
        numbered_lines,
        open_bytes,
        pair_format,
        read_lines,
    )


__getattr__ = lazy_names(
    __name__,
    *("corpora", "text", "mapped_corpus", "encode", "misalignment", "preparation_spec", "preparation", "subwords"),
)
