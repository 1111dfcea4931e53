"""The random numbers of the synthetic corpus: a pure function of (seed, index), equal for all Python versions and
machines.

A hash gives a large number, from which each choice takes a digit in its own base (mixed radix). Seeding
`random.Random` would take longer than generating a sentence.
"""

from __future__ import annotations

__all__ = ["HashRng"]

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
MIN_POOL = 1 << 64  # below this, digits would no longer be uniform: hash again


class HashRng:
    """The random choices of one sentence."""

    __slots__ = ("_key", "_pool", "_round")

    def __init__(self, seed: int, index: int) -> None:
        self._key = f"{seed}:{index}"
        self._round = 0
        self._pool = self._hash()

    def _hash(self) -> int:
        return int.from_bytes(blake2b(f"{self._key}:{self._round}".encode()).digest(), "big")

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        self._pool, digit = divmod(self._pool, n)
        if self._pool < MIN_POOL:
            self._round += 1
            self._pool = self._hash()
        return digit

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices; repeat one to make it more likely."""
        return choices[self.below(len(choices))]

    def chance(self, percent: int) -> bool:
        """True with that probability."""
        return self.below(100) < percent
