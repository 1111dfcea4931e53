"""Randomness of the synthetic corpus: a pure function of (seed, index), the same on every Python and machine.

One hash gives a large number; each choice takes its remainder, as digits of a number whose base changes.
`random.Random` would cost more to seed than a whole sentence costs to make.
"""

from __future__ import annotations

__all__ = ["Draws"]

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
SPENT = 1 << 64  # below this, remainders would no longer be even: hash again


class Draws:
    """The choices that make one sentence, one after the other."""

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
        if self._pool < SPENT:
            self._round += 1
            self._pool = self._hash()
        return digit

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices; repeat one to make it more likely."""
        return choices[self.below(len(choices))]

    def chance(self, percent: int) -> bool:
        """True in that many of 100 cases."""
        return self.below(100) < percent
