"""The corpora of a translation task."""

from __future__ import annotations

__all__ = ["PARALLEL", "corpora_of", "synthetic_direction"]

import os
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s.data import Corpora, CorpusOptions, FileForm, pair_format, parse_corpora

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Registry
    from s2s_translation import TranslationConfig

SYNTHETIC = "synthetic"
"""The corpus that is used without task.train"""


def corpora_of(config: TranslationConfig, registry: Registry | None) -> Corpora:
    """The corpora that `task.train`, `task.valid` and `task.test` name, or without task.train the synthetic one."""

    def named(split: str) -> list[CorpusOptions]:
        if config.train:
            return parse_corpora(getattr(config, split), f"task.{split}", PARALLEL)
        src, tgt = synthetic_direction(config)
        options = {"src": src, "tgt": tgt, "pairs": config.pairs, "seed": config.synthetic_seed}
        return [CorpusOptions(SYNTHETIC, SYNTHETIC, options, key="task")]

    return Corpora(registry, named, {"invalid": config.invalid})


def synthetic_direction(config: TranslationConfig) -> tuple[str, str]:
    """Source and target language of the synthetic corpus."""
    for src, tgt in (("en", "de"), ("de", "en")):
        if config.src_lang in ("", src) and config.tgt_lang in ("", tgt):
            return src, tgt
    raise ConfigError(
        f"task.src_lang={config.src_lang} task.tgt_lang={config.tgt_lang}: the synthetic corpus has en and de; "
        "for other languages give task.train=[source,target]"
    )


def _is_one(files: Sequence[Any]) -> bool:
    """Whether a list of file names is one corpus, which it is unless each file contains pairs."""
    return any(isinstance(file, str | os.PathLike) and not pair_format(Path(file)) for file in files)


def _are_parallel(files: Sequence[Path]) -> bool:
    return len(files) == 2 or (len(files) == 1 and pair_format(files[0]) is not None)


def _common_name(files: Sequence[Path]) -> str:
    """The common beginning of the file names, or the first name: corpus.en, corpus.de -> corpus."""
    first = files[0].name.removesuffix(".gz")
    if len(files) == 1:
        return Path(first).stem or first
    same = takewhile(lambda ab: ab[0] == ab[1], zip(first, files[1].name.removesuffix(".gz"), strict=False))
    return "".join(a for a, _ in same).rstrip(".-_") or first


PARALLEL = FileForm(
    "parallel",
    is_one=_is_one,
    accepts=_are_parallel,
    name_of=_common_name,
    expected="two parallel files: {key}=[corpus.en,corpus.de], one file of pairs: {key}=pairs.tsv or "
    "{key}=pairs.jsonl.gz, or a list of such corpora",
)
"""Two parallel files, or one whose name ends in .tsv or .jsonl."""
