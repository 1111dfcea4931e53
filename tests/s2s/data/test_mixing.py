"""The mixing function against the generator that it is taken from, and keys that depend on every part."""

from __future__ import annotations

import itertools

import numpy as np

from s2s.data.mixing import key_of, mix, seeds_of

GOLDEN = 0x9E3779B97F4A7C15
SPLITMIX64 = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
"""First outputs of SplitMix64 from the seed 0, as published with its reference implementation (Vigna, 2015)"""


def slow_mix(x: int) -> int:
    """Java's SplittableRandom (Steele et al., 2014) with Python's integers."""
    x = (x + GOLDEN) % 2**64
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) % 2**64
    return x ^ x >> 31


def test_mix_is_splitmix64() -> None:
    states = np.array([i * GOLDEN % 2**64 for i in range(4)], np.uint64)
    assert mix(states).tolist() == SPLITMIX64
    some = [0, 1, 2**63, 2**64 - 1, 12345678901234567890]
    assert mix(np.array(some, np.uint64)).tolist() == list(map(slow_mix, some))


def test_a_key_depends_on_every_part_and_their_order() -> None:
    keys = [int(key_of(*parts)[0]) for n in range(4) for parts in itertools.product((0, 1, -1), repeat=n)]
    assert len(set(keys)) == len(keys) == 1 + 3 + 9 + 27
    assert int(key_of(5, 2**64 + 7)[0]) == slow_mix(slow_mix(5) ^ 7), "parts count modulo 2 to the 64th"


def test_seeds_are_those_of_rows_under_a_key() -> None:
    rows = np.array([0, 1, 5], np.int64)
    key = slow_mix((slow_mix(slow_mix(3) ^ 4) + 1) % 2**64)
    assert seeds_of(rows, 3, 4).tolist() == [slow_mix(key ^ row) for row in rows.tolist()]
