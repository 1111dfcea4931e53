"""A task and a model of a few lines, as a third party's local plugin: letters to letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from s2s.model import Memory, Seq2Seq
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry
from s2s.task import Dependencies, Encoded, Example, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FIRST = 4
"""Ids below are special"""


class Letters(Task):
    """Text of lower-case letters, to itself; its tokeniser is a file that lists them."""

    def dependencies(self) -> Dependencies:
        return Dependencies()

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        return [("letters", 1.0)] if split == "train" else []

    def examples(self, split: str, corpus: str) -> Iterator[Example]:
        return (Example(word, word) for word in ("abc", "bca", "cab", "aab"))

    def learn(self, directory: Path) -> None:
        (directory / "letters.txt").write_text("abc")
        self.load(directory)

    def load(self, directory: Path) -> None:
        self.letters = (directory / "letters.txt").read_text()
        self.vocab = Vocab(src=FIRST + len(self.letters), tgt=FIRST + len(self.letters), joint=True)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(self.ids(e.src), self.ids(e.tgt)) for e in examples]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [self.ids(line) for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(self.letters[i - FIRST] for i in ids)

    def ids(self, text: str) -> list[int]:
        return [FIRST + self.letters.index(c) for c in text]


@dataclass(kw_only=True)
class TinyConfig(Choice):
    """The smallest model with tied weights."""

    d_model: int = 8
    """Width."""


class Tiny(Seq2Seq):
    """The mean of the source, added to the last target symbol."""

    def __init__(self, config: TinyConfig, vocab: Vocab) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab.tgt, config.d_model)
        self.out = nn.Linear(config.d_model, vocab.tgt)
        self.out.weight = self.embed.weight

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(self.embed(src), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        kept = memory.hidden.masked_fill(memory.pad[:, :, None], 0)
        mean = kept.sum(1, keepdim=True) / (~memory.pad).sum(1)[:, None, None]
        return self.out(self.embed(tgt) + mean)


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The door."""
    registry.task("letters", Choice, Letters)
    registry.arch("tiny", TinyConfig, Tiny)
