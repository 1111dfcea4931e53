"""Tasks that need no file and learn nothing, for tests of a generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from s2s.registry import Choice
from s2s.task import Dependencies, Encoded, Example, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class WithoutFiles(Task):
    """What such a task says of corpora and tokenisers: there are none."""

    def dependencies(self) -> Dependencies:
        return Dependencies()

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        return []

    def examples(self, split: str, corpus: str) -> Iterator[Example]:
        return iter(())

    def learn(self, directory: Path) -> None: ...

    def load(self, directory: Path) -> None: ...


class Capitals(WithoutFiles):
    """Every letter is a symbol, all else is none; outputs are written in capitals."""

    def __init__(self) -> None:
        super().__init__(Choice())
        self.vocab = Vocab(src=30, tgt=30, joint=True)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return [[ord(c) - ord("a") + 4 for c in line if "a" <= c <= "z"] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return "".join(chr(i - 4 + ord("A")) for i in ids)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        raise NotImplementedError
