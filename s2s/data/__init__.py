"""From raw text to batches: corpora, tokenisers, preparation, the order of the data."""

from __future__ import annotations

__all__ = [
    "BOS",
    "DROP_HINT",
    "EOS",
    "INVALID_UTF8",
    "MAX_LINE",
    "NUL",
    "PAD",
    "PAIR_FILES",
    "TOO_LONG",
    "UNK",
    "Corpora",
    "CorpusOptions",
    "CorpusTask",
    "FileForm",
    "FileStamp",
    "Invalid",
    "Line",
    "MappedCorpus",
    "PreparationSpec",
    "TextConfig",
    "TextTask",
    "Tokenizer",
    "TokenizerKind",
    "blocks",
    "first_misaligned_line",
    "has_same_contents",
    "missing_file_error",
    "numbered_lines",
    "open_bytes",
    "pair_format",
    "parse_corpora",
    "prepare",
    "read_lines",
    "stamp_file",
    "tokenizer_kind",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.data.corpora import Corpora, CorpusOptions, FileForm, parse_corpora
    from s2s.data.corpus_task import CorpusTask
    from s2s.data.file_stamp import FileStamp, has_same_contents, stamp_file
    from s2s.data.mapped_corpus import MappedCorpus
    from s2s.data.misalignment import first_misaligned_line
    from s2s.data.pair_files import PAIR_FILES
    from s2s.data.preparation import prepare
    from s2s.data.preparation_spec import PreparationSpec
    from s2s.data.text import (
        DROP_HINT,
        INVALID_UTF8,
        MAX_LINE,
        NUL,
        TOO_LONG,
        Invalid,
        Line,
        blocks,
        missing_file_error,
        numbered_lines,
        open_bytes,
        pair_format,
        read_lines,
    )
    from s2s.data.text_config import TextConfig
    from s2s.data.text_task import TextTask
    from s2s.data.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerKind, tokenizer_kind


__getattr__ = lazy_names(
    __name__,
    *(
        "corpora",
        "text",
        "file_stamp",
        "mapped_corpus",
        "encode",
        "misalignment",
        "preparation_spec",
        "preparation",
        "tokenizer",
        "pair_files",
        "corpus_task",
        "text_config",
        "text_task",
    ),
)
