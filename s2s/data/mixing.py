"""Pseudorandom numbers as functions of a key, computed where they are needed: one key per order or draw."""

from __future__ import annotations

__all__ = ["key_of", "mix", "seeds_of"]

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every input bit over all output bits (the finaliser of SplitMix64, Steele et al., 2014)."""
    x = x + np.uint64(0x9E37_79B9_7F4A_7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))


def key_of(*parts: int) -> NDArray[np.uint64]:
    """All parts mixed into one number: [1]"""
    key = np.zeros(1, dtype=np.uint64)
    for part in parts:
        key = mix(key ^ np.uint64(part & 0xFFFF_FFFF_FFFF_FFFF))
    return key


def seeds_of(rows: NDArray[np.int64], *parts: int) -> NDArray[np.uint64]:
    """A seed for each row under a key: [n] -> [n]"""
    return mix(mix(key_of(*parts) + np.uint64(1)) ^ rows.astype(np.uint64))
