"""Files in the format of the bAbI tasks (Weston et al., 2015).

    1 Mary went to the office.
    2 Where is Mary?<tab>office<tab>1

A story begins where the numbers begin again; each of its questions is one example, with the sentences before it.
"""

from __future__ import annotations

__all__ = ["Babi"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s import Corpus, DataError, Example, Rejected
from s2s.data import DROP_HINT, numbered_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_stories import BabiConfig

NOT_NUMBERED = Rejected("a line without a number")


class Babi(Corpus):
    """All questions of all files."""

    def __init__(self, config: BabiConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """In order; raises DataError for a line without a number, unless such lines are dropped."""
        for path in self.files(split):
            sentences: list[str] = []
            for n, line in numbered_lines(path, self.config.invalid):
                if isinstance(line, Rejected):
                    yield line
                    continue
                number, _, text = line.partition(" ")
                if not number.isdecimal():
                    if self.config.invalid == "error":
                        raise DataError(f"{path}, line {n}: expected a number and a sentence; {DROP_HINT}")
                    yield NOT_NUMBERED
                    continue
                sentences = [] if int(number) == 1 else sentences
                question, answered, answer = text.partition("\t")
                if answered:
                    yield Example(" ".join([*sentences, question.strip()]), answer.partition("\t")[0].strip())
                else:
                    sentences.append(text.strip())

    def files(self, split: str) -> list[Path]:
        """As given."""
        return [Path(file) for file in self.config.files]

    def settings(self) -> dict[str, Any]:
        """How lines that cannot be read are handled."""
        return {"invalid": self.config.invalid}
