"""Numbers and the results of an algorithm on them, as sentences of digits."""

from __future__ import annotations

__all__ = ["Algorithmic", "pair"]

import random
from typing import TYPE_CHECKING, Any

from s2s import Corpus, Example

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_neural_gpu import AlgorithmicConfig


class Algorithmic(Corpus):
    """Random pairs, with a separate generator for each split."""

    def __init__(self, config: AlgorithmicConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example]:
        """Training pairs of 1 to `digits` digits, held-out ones of more."""
        config, draw = self.config, random.Random(f"{self.config.seed} {split}")
        n, low, high = config.pairs, 1, config.digits
        if split != "train":
            n = config.held_out
            if config.longer:
                low, high = config.digits + 1, max(round(config.digits * (1 + config.longer)), config.digits + 1)
        for _ in range(n):
            yield pair(draw, config.algorithm, draw.randint(low, high), config.radix)

    def settings(self) -> dict[str, Any]:
        """All options."""
        return {key: value for key, value in vars(self.config).items() if key != "name"}


def pair(draw: random.Random, algorithm: str, n: int, radix: int) -> Example:
    """One pair with a number of `n` digits; in a sum, the second number has 1 to n digits."""
    first = [draw.randrange(radix) for _ in range(n)]
    if algorithm == "copy":
        return Example(written(first), written(first))
    if algorithm == "reverse":
        return Example(written(first), written(first[::-1]))
    second = [draw.randrange(radix) for _ in range(draw.randint(1, n))]
    return Example(f"{written(first)} + {written(second)}", written(added(first, second, radix)))


def added(first: list[int], second: list[int], radix: int) -> list[int]:
    """The sum of two numbers, least significant digit first, without leading zeros."""
    total = sum(d * radix**i for i, d in enumerate(first)) + sum(d * radix**i for i, d in enumerate(second))
    digits = []
    while total:
        total, digit = divmod(total, radix)
        digits.append(digit)
    return digits or [0]


def written(digits: list[int]) -> str:
    """The digits separated by spaces."""
    return " ".join(map(str, digits))
