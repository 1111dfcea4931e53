"""Symbols without a token in training sources, with tokenisers that spell them, and that do not."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from s2s.data.noise import UnknownSymbols
from s2s.data.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

SRC, TGT = "the dog sees a cat", "der hund sieht"


class Letters(Tokenizer):
    """Letters of ASCII and the blank have tokens; all else is unknown, or bytes."""

    def __init__(self, *, spells: bool) -> None:
        self.spells, self.pieces = spells, list("....abcdefghijklmnopqrstuvwxyz ")

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[i for character in line for i in self._of(character)] for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def _of(self, character: str) -> list[int]:
        if character in self._ids:
            return [self._ids[character]]
        return [100 + byte for byte in ("▁" + character).encode()] if self.spells else [self.unk]


def test_a_source_gets_a_symbol_that_is_unknown_and_the_target_none() -> None:
    noise = UnknownSymbols(0.1, Letters(spells=False), Letters(spells=False))
    pairs = [noise.altered(SRC, TGT, Random(seed)) for seed in range(300)]
    assert {tgt for _, tgt in pairs} == {TGT}
    sources = {src for src, _ in pairs}
    assert len(sources) > 250
    n_unknown = [noise.src.encode([src])[0].count(Letters.unk) for src in sources]
    assert 1 <= min(n_unknown) <= max(n_unknown) <= 6
    stripped = ["".join(c for c in src if c in "abcdefghijklmnopqrstuvwxyz ") for src in sources]
    kept = [" ".join(text.split()) == SRC for text in stripped]
    assert 0.5 < sum(kept) / len(kept) < 1, "in some a letter is replaced"
    assert any(src[0] not in "t" for src in sources)
    assert any(src[-1] not in "t" for src in sources)


def test_a_symbol_that_both_sides_spell_is_copied_at_the_edges() -> None:
    noise = UnknownSymbols(0.1, Letters(spells=True), Letters(spells=True))
    copied = 0
    for seed in range(300):
        src, tgt = noise.altered(SRC, TGT, Random(seed))
        edges = src.partition(SRC)
        if edges[1]:
            copied += 1
            assert tgt == f"{edges[0]}{TGT}{edges[2]}"
        else:
            assert tgt == TGT
    assert copied > 100


@pytest.mark.parametrize(("src", "tgt"), [(True, False), (False, True)])
def test_a_symbol_that_one_side_alone_spells_is_not_copied(src: bool, tgt: bool) -> None:
    noise = UnknownSymbols(0.1, Letters(spells=src), Letters(spells=tgt))
    assert {noise.altered(SRC, TGT, Random(seed))[1] for seed in range(100)} == {TGT}


def test_a_word_may_get_one_and_the_number_of_words_stays() -> None:
    noise = UnknownSymbols(0.1, Letters(spells=False))
    words = SRC.split()
    for seed in range(100):
        altered = noise.in_word(words, Random(seed))
        assert sum(a != b for a, b in zip(words, altered, strict=True)) == 1
        assert all(not any(map(str.isspace, word)) and word for word in altered)


def test_an_empty_source_stays_empty() -> None:
    noise = UnknownSymbols(0.1, Letters(spells=False))
    assert {noise.altered("", TGT, Random(seed)) for seed in range(50)} == {("", TGT)}
