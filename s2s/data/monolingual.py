"""Text files without a source side, as a corpus."""

from __future__ import annotations

__all__ = ["MONOLINGUAL", "MonolingualCorpus"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.corpus import Corpus
from s2s.data.corpus_options import FileForm
from s2s.data.parallel import EMPTY
from s2s.data.text import blocks
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.data import MonolingualConfig


class MonolingualCorpus(Corpus):
    """Every line as a target, with an empty source."""

    def __init__(self, config: MonolingualConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """The lines of the files, in order."""
        for file in self.files(split):
            for block in blocks(file, self.config.invalid):
                for line in block:
                    if isinstance(line, Rejected):
                        yield line
                    else:
                        yield Example("", line) if line.strip() else EMPTY

    def files(self, split: str) -> list[Path]:
        """The files."""
        return [Path(file) for file in self.config.files]

    def settings(self) -> dict[str, Any]:
        """What becomes of lines that are not text."""
        return {"invalid": self.config.invalid}


MONOLINGUAL = FileForm(
    "monolingual",
    is_one=lambda _: False,
    accepts=lambda _: True,
    name_of=lambda files: str(files[0]),
    expected="a file, or several as {key}=[news.de,books.de]",
)
"""Every file is a corpus of its own."""
