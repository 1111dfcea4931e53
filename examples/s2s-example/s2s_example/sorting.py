"""Write the digits of the source in ascending order: "3 1 2" -> "1 2 3"."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from s2s import Dependencies, Encoded, Example, Task, Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s_example import SortingConfig

FIRST = 4  # after pad, unk, bos and eos
SPLITS = {"train": 0, "valid": 1, "test": 2}


class Sorting(Task):
    """A task without files: pairs are drawn, symbols are digits."""

    config: SortingConfig
    metrics = ("bleu",)

    def dependencies(self) -> Dependencies:
        return Dependencies(
            settings={"pairs": self.config.pairs, "longest": self.config.longest, "seed": self.config.seed}
        )

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        return [("digits", 1.0)]

    def examples(self, split: str, corpus: str) -> Iterator[Example]:
        draw = random.Random(3 * self.config.seed + SPLITS[split])
        for _ in range(self.config.pairs if split == "train" else 200):
            digits = [str(draw.randrange(10)) for _ in range(draw.randint(1, self.config.longest))]
            yield Example(" ".join(digits), " ".join(sorted(digits)))

    def learn(self, directory: Path) -> None:
        (directory / "symbols.txt").write_text("0123456789")
        self.load(directory)

    def load(self, directory: Path) -> None:
        self.symbols = (directory / "symbols.txt").read_text()
        size = FIRST + len(self.symbols)
        self.vocab = Vocab(src=size, tgt=size, joint=True)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        return [Encoded(*self.encode_source([example.src, example.tgt])) for example in examples]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        known = {symbol: FIRST + i for i, symbol in enumerate(self.symbols)}
        return [[known.get(word, self.vocab.unk) for word in line.split()] for line in lines]

    def detokenize(self, ids: Sequence[int], src: str) -> str:
        return " ".join(self.symbols[i - FIRST] if i >= FIRST else "?" for i in ids)
