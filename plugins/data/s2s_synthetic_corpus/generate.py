"""Sentence pairs from an English-German grammar, any number of them.

A pair is a pure function of (seed, index). Training, validation and test share no English sentence: the sentence
itself determines its split (`split_of`), so that the splits need not be compared.
"""

from __future__ import annotations

__all__ = ["SPLITS", "Parallel", "pair", "pairs", "split_of"]

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from s2s_synthetic_corpus.english import text
from s2s_synthetic_corpus.rng import HashRng
from s2s_synthetic_corpus.sentences import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

SPLITS = ("train", "valid", "test")


class Parallel(NamedTuple):
    """A sentence in both languages, and the tree of the English."""

    en: str
    de: str
    tree: str
    """Penn Treebank bracketing on one line; its leaves are the tokens of `en`."""


def pair(seed: int, index: int) -> Parallel:
    """Pair number `index` of the infinite corpus of a seed."""
    tree, de = sentence(HashRng(seed, index))
    return Parallel(text(tree), de, tree)


def split_of(en: str) -> str:
    """The only split in which an English sentence may occur: 8 of 10 go to training."""
    part = blake2b(en.encode(), digest_size=1).digest()[0] % 10
    return SPLITS[max(0, part - 7)]


def pairs(seed: int, n: int, split: str | None = None, *, start: int = 0) -> Iterator[Parallel]:
    """The first n pairs from index `start` on; with a split, the first n of that split."""
    index = start
    while n > 0:
        made = pair(seed, index)
        index += 1
        if split is None or split_of(made.en) == split:
            n -= 1
            yield made
