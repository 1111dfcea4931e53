"""A task whose vocabularies are given by an option: words of letters, and the same words backwards."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry
from s2s.task import Dependencies, Encoded, Example, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s.task import Side, TokenNames

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


@dataclass(kw_only=True)
class AlphabetConfig(Choice):
    """Letters in the order of their ids."""

    src: str = "abcdef"
    """Of sources."""
    tgt: str = ""
    """Of targets; empty: those of sources, as one joint vocabulary."""
    named: bool = True
    """List the vocabularies."""


class Alphabet(Task):
    """Tokens are letters."""

    config: AlphabetConfig

    def dependencies(self) -> Dependencies:
        return Dependencies(settings={"src": self.config.src, "tgt": self.config.tgt})

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        return [("words", 1.0)] if split in ("train", "valid") else []

    def examples(self, split: str, corpus: str) -> Iterator[Example]:
        draw = random.Random(split)
        letters = sorted(set(self.config.src) & set(self.config.tgt or self.config.src))
        for _ in range(60 if split == "train" else 6):
            word = "".join(draw.choices(letters, k=draw.randint(1, 5)))
            yield Example(word, word[::-1])

    def learn(self, directory: Path) -> None:
        (directory / "letters.txt").write_text(f"{self.config.src}\n{self.config.tgt or self.config.src}")
        self.load(directory)

    def load(self, directory: Path) -> None:
        self.letters = dict(zip(("src", "tgt"), (directory / "letters.txt").read_text().split("\n"), strict=True))
        src, tgt = (len(SPECIAL) + len(letters) for letters in self.letters.values())
        self.vocab = Vocab(src=src, tgt=tgt, joint=not self.config.tgt)

    def vocabulary(self, side: Side) -> Sequence[TokenNames] | None:
        return [*SPECIAL, *self.letters[side]] if self.config.named else None

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(self._ids(e.src, "src"), self._ids(e.tgt, "tgt")) for e in examples]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [self._ids(line, "src") for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(self.letters["tgt"][i - len(SPECIAL)] for i in ids if i >= len(SPECIAL))

    def _ids(self, text: str, side: str) -> list[int]:
        return [len(SPECIAL) + self.letters[side].index(letter) for letter in text]


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.task("alphabet", AlphabetConfig, Alphabet)
