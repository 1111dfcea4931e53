"""Text files without a source side, as a corpus."""

from __future__ import annotations

__all__ = ["MonolingualCorpus"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import Corpus, Example, Rejected
from s2s.data import numbered_lines
from s2s_text_corpora.pair_file import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_text_corpora import MonolingualConfig


class MonolingualCorpus(Corpus):
    """Every line as a target, with an empty source."""

    def __init__(self, config: MonolingualConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """The lines of the files, in order."""
        for file in self.files(split):
            for _, line in numbered_lines(file, self.config.invalid):
                if isinstance(line, Rejected):
                    yield line
                else:
                    yield Example("", line) if line.strip() else EMPTY

    def files(self, split: str) -> list[Path]:
        """The files."""
        return [Path(file) for file in self.config.files]

    def settings(self) -> dict[str, Any]:
        """The treatment of invalid lines."""
        return {"invalid": self.config.invalid}
