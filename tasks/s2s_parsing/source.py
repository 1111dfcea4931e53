"""Source sentences: words parted by blanks, cut into subwords so that ids still tell where each word begins."""

from __future__ import annotations

__all__ = ["Source", "words_of"]

import itertools
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.data.subwords import Subwords

BLANKS = re.compile(r"[ \t\n\v\f\r]+")
BEGINNING = "\u2581"  # how sentencepiece marks the first piece of a word


def words_of(line: str) -> list[str]:
    """The words of a sentence; brackets are written as in the Penn Treebank, where they are no words."""
    line = line.replace("(", "-LRB-").replace(")", "-RRB-")
    return [word for word in BLANKS.split(line) if word]


class Source:
    """Words to ids and, if asked for, a mark behind each word."""

    def __init__(self, subwords: Subwords, n_ends: int = 0) -> None:
        """n_ends: different marks, which take turns."""
        self.subwords = subwords
        self.ends = range(subwords.size, subwords.size + n_ends)
        """The ids of the marks"""
        self.word_marks = [piece.startswith(BEGINNING) for piece in subwords.pieces] + [False] * n_ends
        """By id, whether it begins a word: every word has exactly one such, however it is spelt"""
        self.blank = subwords.pieces.index(BEGINNING) if BEGINNING in subwords.pieces else subwords.unk

    @property
    def size(self) -> int:
        """Symbols, special ones and the marks included."""
        return self.subwords.size + len(self.ends)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line, without bos and eos."""
        sentences = [words_of(line) for line in lines]
        encoded = self.subwords.encode([" ".join(words) for words in sentences])
        return [self._aligned(ids, words) for ids, words in zip(encoded, sentences, strict=True)]

    def _aligned(self, ids: list[int], words: list[str]) -> list[int]:
        """The ids with as many beginnings as words, and the marks."""
        if sum(self.word_marks[i] for i in ids) != len(words):
            ids = [i for word in words for i in self._word(word)]
        return self._marked(ids) if self.ends else ids

    def _word(self, word: str) -> list[int]:
        """One word by itself: blanks that are letters to us, and what sentencepiece drops, would shift the others."""
        (ids,) = self.subwords.encode(["".join(unicodedata.normalize("NFKC", word).split())])
        if [self.word_marks[i] for i in ids] == [True] + [False] * (len(ids) - 1):
            return ids
        return [self.blank, self.subwords.unk]

    def _marked(self, ids: Iterable[int]) -> list[int]:
        marked: list[int] = []
        ends = itertools.cycle(self.ends)
        for i in ids:
            if marked and self.word_marks[i]:
                marked.append(next(ends))
            marked.append(i)
        return [*marked, next(ends)] if marked else []
