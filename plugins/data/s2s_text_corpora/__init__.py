"""The corpora of text files: `parallel` and `monolingual`. No torch at import."""

from __future__ import annotations

__all__ = ["MonolingualConfig", "ParallelConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl


@dataclass(kw_only=True)
class ParallelConfig(Choice):
    """Pairs: two parallel files of lines, a file of pairs (.tsv, .csv, .jsonl, .json, .xlsx, .parquet, .arrow, .tar,
    .tmx, .xliff, .po), or a folder of such files; text may be compressed (.gz, .bz2, .xz, .zst)."""

    files: list[str] = field(default_factory=list)
    """[corpus.en,corpus.de], or a file or folder of pairs."""
    columns: list[Any] = field(default_factory=list)
    """[source,target] of a file of pairs: names, keys, or numbers from 1; of a translation memory, languages. Empty: by
    src_lang and tgt_lang, names such as source and target, or the order."""
    src_lang: str = ""
    """Language of the source, such as en, for a file that has several."""
    tgt_lang: str = ""
    """Language of the target."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8 or not a pair: stop, or drop and count it."""
    documents: bool = False
    """Whether pairs that follow one another are a document, until an empty line, another `document` (or `doc`) of JSON
    lines, or another third column of a TSV; for task.context, which sets it."""

    def __post_init__(self) -> None:
        if len(self.columns) not in (0, 2) or not all(isinstance(one, str | int) for one in self.columns):
            raise ConfigError(f"columns={self.columns}: give two, [source,target], by their names or numbers")


@dataclass(kw_only=True)
class MonolingualConfig(Choice):
    """Lines of text as targets without a source; .gz, .bz2, .xz and .zst are read directly."""

    files: list[str] = field(default_factory=list)
    """Files with one sentence per line."""
    invalid: Literal["error", "drop"] = "error"
    """What to do with a line that is not UTF-8: stop, or drop and count it."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.corpus("parallel", ParallelConfig, "s2s_text_corpora.parallel:ParallelCorpus")
    registry.corpus("monolingual", MonolingualConfig, "s2s_text_corpora.monolingual:MonolingualCorpus")
