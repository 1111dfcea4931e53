"""The translation task: text to text, by default of the synthetic corpus."""

from __future__ import annotations

__all__ = ["Translation"]

from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.data import CorpusOptions, TextTask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from s2s_translation import TranslationConfig

SYNTHETIC = "synthetic"
"""The corpus that is used without task.train"""


class Translation(TextTask):
    """Pairs of sentences."""

    config: TranslationConfig
    running_text = True

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """Those that the option of a split names, or without task.train the synthetic one."""
        if self.config.train is not None:
            return super().named_corpora(split)
        src, tgt = synthetic_direction(self.config)
        options = {"src": src, "tgt": tgt, "pairs": self.config.pairs, "seed": self.config.synthetic_seed}
        return [CorpusOptions(SYNTHETIC, SYNTHETIC, options, key="task")]

    def directions(self) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
        """As in the base class, or that of the synthetic corpus."""
        return super().directions() if self.config.train is not None else [(*synthetic_direction(self.config), {})]

    def source_language(self, fields: Mapping[str, Any]) -> str:
        """As in the base class, or that of the synthetic corpus."""
        return super().source_language(fields) if self.config.train is not None else synthetic_direction(self.config)[0]

    def describe(self) -> Iterable[str]:
        """Whether the synthetic corpus is used, and in which direction; then the lines that corpora report."""
        if self.config.train is None:
            names = {"en": "English", "de": "German"}
            src, tgt = (names[side] for side in synthetic_direction(self.config))
            yield f"no task.train is given: {self.config.pairs:,} pairs of the synthetic corpus, {src} to {tgt}"
        yield from super().describe()


def synthetic_direction(config: TranslationConfig) -> tuple[str, str]:
    """Source and target language of the synthetic corpus."""
    for src, tgt in (("en", "de"), ("de", "en")):
        if config.src_lang in ("", src) and config.tgt_lang in ("", tgt):
            return src, tgt
    raise ConfigError(
        f"task.src_lang={config.src_lang} task.tgt_lang={config.tgt_lang}: the synthetic corpus has en and de; "
        "for other languages give task.train=[source,target]"
    )
