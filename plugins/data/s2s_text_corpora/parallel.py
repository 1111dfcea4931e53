"""Parallel text as a corpus: two parallel files, or files that hold both sides of pairs.

An unusable pair becomes a `Rejected` in its position, so that nothing is misaligned and all pairs are counted.
"""

from __future__ import annotations

__all__ = ["ParallelCorpus", "read_pairs"]

import importlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import Corpus, DataError, Example, Rejected, UserError
from s2s.data import Invalid, pair_format, parallel_pairs
from s2s_text_corpora.folders import dataset_files
from s2s_text_corpora.pair_file import BLANK, Reading, as_pair
from s2s_text_corpora.sniffing import sniffed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s_text_corpora import ParallelConfig
    from s2s_text_corpora.pair_file import PairFile

FORMATS = {
    "tsv": "delimited:TsvFile",
    "bars": "delimited:BarsFile",
    "csv": "delimited:CsvFile",
    "jsonl": "records:JsonLinesFile",
    "json": "records:JsonFile",
    "xlsx": "spreadsheet:SpreadsheetFile",
    "parquet": "arrow_tables:ParquetFile",
    "arrow": "arrow_tables:ArrowFile",
    "tar": "shards:ShardFile",
    "tmx": "translation_units:TmxFile",
    "xliff": "translation_units:XliffFile",
    "po": "translation_units:PoFile",
}
"""Modules and classes that read a format"""


class ParallelCorpus(Corpus):
    """The pairs of two parallel files, or of one file or folder of pairs."""

    def __init__(self, config: ParallelConfig) -> None:
        self.config = config
        self.reading = Reading(
            invalid=config.invalid,
            columns=tuple(map(str, config.columns)),
            languages=(config.src_lang, config.tgt_lang),
            documents=config.documents,
        )

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """Every pair, in order."""
        files = self.files(split)
        if self._are_parallel:
            pairs = parallel_pairs(files[0], files[1], self.config.invalid, as_pair)
        else:
            pairs = (pair for file in files for pair in pair_file(file, self.reading).pairs())
        return _in_documents(pairs) if self.config.documents else pairs

    @property
    def _are_parallel(self) -> bool:
        return len(self.config.files) == 2

    def files(self, split: str) -> list[Path]:
        """The file or the two files, or those of the split in a folder."""
        paths = [Path(file) for file in self.config.files]
        return dataset_files(paths[0], split) if len(paths) == 1 and paths[0].is_dir() else paths

    def settings(self) -> dict[str, Any]:
        """The treatment of invalid lines, whether there are documents, and what says which columns are read."""
        config = self.config
        chosen = (
            {}
            if self._are_parallel
            else {"columns": list(map(str, config.columns)), "languages": [*filter(None, self.reading.languages)]}
        )
        others = {"documents": config.documents, **chosen}
        return {"invalid": config.invalid, **{name: value for name, value in others.items() if value}}

    def describe(self) -> Iterable[str]:
        """What was chosen without the user, such as the columns of a table."""
        with suppress(UserError):
            if not self._are_parallel:
                for file in self.files("train")[:1]:
                    yield from filter(None, [pair_file(file, self.reading).decided()])


def read_pairs(
    files: Sequence[Path | str], invalid: Invalid = "error", *, documents: bool = False
) -> Iterator[Example | Rejected]:
    """Every pair of one corpus, in order; documents: whether a TSV may name them in a third column."""
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        return parallel_pairs(paths[0], paths[1], invalid, as_pair)
    if len(paths) != 1:
        raise DataError(f"{', '.join(map(str, paths))}: a corpus is two parallel files, or one of pairs")
    return pair_file(paths[0], Reading(invalid=invalid, documents=documents)).pairs()


def pair_file(path: Path, reading: Reading) -> PairFile:
    """The reader of a file by its name, or by its first bytes if the name says nothing."""
    module, _, name = FORMATS[pair_format(path) or sniffed(path)].partition(":")
    reader: PairFile = getattr(importlib.import_module(f"s2s_text_corpora.{module}"), name)(path, reading)
    return reader


def _in_documents(pairs: Iterator[Example | Rejected]) -> Iterator[Example | Rejected]:
    """The pairs with the number of their document where they name none."""
    number = 0
    for one in pairs:
        number += one is BLANK
        if isinstance(one, Rejected) or one.fields.keys() & {"document", "doc"}:
            yield one
        else:
            yield replace(one, fields={**one.fields, "document": number})
