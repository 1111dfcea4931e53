"""Source sentences: words separated by blanks, encoded as subwords of which exactly one begins each word."""

from __future__ import annotations

__all__ = ["SourceEncoder", "words_of"]

import itertools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.data import Tokenizer

BLANKS = re.compile(r"[ \t\n\v\f\r]+")
BEGINNING = "\u2581"  # how sentencepiece marks the first piece of a word


def words_of(line: str) -> list[str]:
    """The words of a sentence; brackets are escaped as in the Penn Treebank."""
    line = line.replace("(", "-LRB-").replace(")", "-RRB-")
    return [word for word in BLANKS.split(line) if word]


class SourceEncoder:
    """Words to ids, with an optional token after each word."""

    unknown: Sequence[float] = ()
    label_ids = range(0)

    def __init__(self, subwords: Tokenizer, n_ends: int = 0) -> None:
        """`n_ends`: number of different word-end tokens, used in turn."""
        self.subwords = subwords
        self.ends = range(subwords.size, subwords.size + n_ends)
        """Ids of the word-end tokens"""
        self.word_begins = [piece.startswith(BEGINNING) for piece in subwords.pieces] + [False] * n_ends
        """By id, whether it begins a word: every word has exactly one such token"""
        self.blank = subwords.pieces.index(BEGINNING) if BEGINNING in subwords.pieces else subwords.unk

    @property
    def identity(self) -> str:
        """A hash of the subwords."""
        return self.subwords.identity

    @property
    def pieces(self) -> list[str]:
        """The tokens in the order of their ids."""
        return [*self.subwords.pieces, *(f"<word end {i}>" for i in range(len(self.ends)))]

    @property
    def size(self) -> int:
        """Number of tokens, special and word-end tokens included."""
        return self.subwords.size + len(self.ends)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line, without bos and eos."""
        sentences = [words_of(line) for line in lines]
        encoded = self.subwords.encode([" ".join(words) for words in sentences])
        split = self._split(itertools.chain.from_iterable(sentences))
        return [self._aligned(ids, words, split) for ids, words in zip(encoded, sentences, strict=True)]

    def decode(self, ids: Iterable[int]) -> str:
        """The words of ids; word-end tokens are left out."""
        return self.subwords.decode([i for i in ids if i < self.subwords.size])

    def _split(self, words: Iterable[str]) -> set[str]:
        """The words that the subwords divide, as at a Unicode blank; no character of ASCII divides a word.

        The number of word-initial tokens does not show this in a sentence of which another word is dropped.
        """
        unusual = sorted({word for word in words if not word.isascii()})
        encoded = self.subwords.encode(unusual)
        return {word for word, ids in zip(unusual, encoded, strict=True) if sum(self.word_begins[i] for i in ids) > 1}

    def _aligned(self, ids: list[int], words: list[str], split: set[str]) -> list[int]:
        """The ids with one word-initial token per word, and the word-end tokens."""
        if sum(self.word_begins[i] for i in ids) != len(words) or not split.isdisjoint(words):
            ids = [i for word in words for i in self._word(word)]
        return self._with_ends(ids) if self.ends else ids

    def _word(self, word: str) -> list[int]:
        """Ids of one word alone: Unicode blanks and characters that sentencepiece drops would misalign the others."""
        (ids,) = self.subwords.encode(["".join(unicodedata.normalize("NFKC", word).split())])
        if [self.word_begins[i] for i in ids] == [True] + [False] * (len(ids) - 1):
            return ids
        return [self.blank, self.subwords.unk]

    def _with_ends(self, ids: Iterable[int]) -> list[int]:
        """The ids with a word-end token after each word."""
        complete: list[int] = []
        ends = itertools.cycle(self.ends)
        for i in ids:
            if complete and self.word_begins[i]:
                complete.append(next(ends))
            complete.append(i)
        return [*complete, next(ends)] if complete else []
