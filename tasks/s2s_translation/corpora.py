"""Which corpora a translation task has."""

from __future__ import annotations

__all__ = ["corpora_of", "synthetic_direction"]

from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.data import PARALLEL, Corpora, CorpusOptions, parse_corpora

if TYPE_CHECKING:
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
