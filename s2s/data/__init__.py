"""From raw text to batches: corpora, tokenisers, preparation, the order of the data.

`invisible` and `noise` are modules: of each, the names in its `__all__` are public.
"""

from __future__ import annotations

__all__ = [
    "DROP_HINT",
    "INVALID_UTF8",
    "MAX_LINE",
    "NUL",
    "CorpusOptions",
    "CorpusTask",
    "FileForm",
    "FileStamp",
    "Invalid",
    "MappedCorpus",
    "PreparationSpec",
    "Segmenter",
    "TextConfig",
    "TextTask",
    "Tokenizer",
    "TokenizerKind",
    "invisible",
    "missing_file_error",
    "noise",
    "numbered_lines",
    "open_bytes",
    "pair_format",
    "parallel_pairs",
    "parse_corpora",
    "read_lines",
    "tokenizer_kind",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.data import invisible, noise
    from s2s.data.corpora import CorpusOptions, FileForm, parse_corpora
    from s2s.data.corpus_task import CorpusTask
    from s2s.data.file_stamp import FileStamp
    from s2s.data.mapped_corpus import MappedCorpus
    from s2s.data.parallel_text import parallel_pairs
    from s2s.data.preparation_spec import PreparationSpec
    from s2s.data.segmenter import Segmenter
    from s2s.data.text import (
        DROP_HINT,
        INVALID_UTF8,
        MAX_LINE,
        NUL,
        Invalid,
        missing_file_error,
        numbered_lines,
        open_bytes,
        pair_format,
        read_lines,
    )
    from s2s.data.text_config import TextConfig
    from s2s.data.text_task import TextTask
    from s2s.data.tokenizer import Tokenizer, TokenizerKind, tokenizer_kind


__getattr__ = lazy_names(
    __name__,
    "text_config",  # first: configurations are read where nothing else is needed
    "corpora",
    "text",
    "tokenizer",
    "corpus_task",
    "text_task",
    "invisible",
    "noise",
    "segmenter",
    "file_stamp",
    "parallel_text",
    "preparation_spec",  # from here on with numpy
    "mapped_corpus",
)
