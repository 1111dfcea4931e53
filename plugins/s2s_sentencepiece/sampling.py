"""Subword regularisation: a text in other subwords, drawn by a seed alone, in every process the same.

sentencepiece's own sampling (0.2.3) mixes a random number of the process into its seed: a resumed run would read other
subwords than one that was never stopped.
"""

from __future__ import annotations

__all__ = ["SubwordSampler"]

import math
import random
import re
from bisect import bisect
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from s2s.data import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BLANK = "▁"
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
N_KEPT = 200_000
"""Words and partly merged words of which the next steps are kept: 80 MB"""
LONG = 32
"""Tokens of a word from which on nothing of it is kept, such as of a sentence written without blanks"""


class Merging:
    """A word on its way from characters to subwords, linked to what each of its merges makes of it."""

    __slots__ = ("ids", "merges", "then")

    def __init__(self, ids: tuple[int, ...], merges: list[int]) -> None:
        """merges: where two neighbours can be merged, the best first."""
        self.ids, self.merges = ids, merges
        self.then: list[Merging | None] = [None] * len(merges)


class LastPieces(NamedTuple):
    """The pieces that may end a beginning of a word: where each begins, its id, and probabilities summed up."""

    starts: list[int]
    ids: list[int]
    sums: list[float]


class SubwordSampler:
    """Other subwords of the same text; what unk or single bytes stand for stays as it is.

    bpe: at each step a merge is left out with probability alpha (Provilkov et al., 2020, algorithm 1). unigram: a
    segmentation is as likely as its probability to the power of alpha (Kudo, 2018, section 3.1). Words are drawn one by
    one, since no subword goes beyond one.
    """

    def __init__(
        self, pieces: Sequence[str], scores: Sequence[float], kind: Literal["bpe", "unigram"], alpha: float
    ) -> None:
        """pieces and scores by id."""
        self.pieces, self.alpha = pieces, alpha
        self._scores = scores
        self._fixed = [i in (PAD, UNK, BOS, EOS) or bool(BYTE.fullmatch(p)) for i, p in enumerate(pieces)]
        self.ids = {piece: i for i, piece in enumerate(pieces) if not self._fixed[i]}
        self._begins = [piece.startswith(BLANK) for piece in pieces]
        self._longest = max(map(len, pieces))
        self._draw = self._bpe if kind == "bpe" else self._unigram
        self._joined = lru_cache(N_KEPT)(self._join)
        self._words_kept: dict[tuple[int, ...], Merging] = {}
        self._merging_kept: dict[tuple[int, ...], Merging] = {}
        self._kept_lattice = lru_cache(N_KEPT)(self._lattice)

    def __call__(self, ids: Sequence[int], seed: int) -> list[int]:
        """The text of `ids` in other subwords: a function of both arguments alone."""
        draw, drawn = random.Random(seed).random, list[int]()
        for word in self._words(ids):
            drawn += word if self._fixed[word[0]] else self._draw(word, draw)
        return drawn

    def _words(self, ids: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Runs of tokens, each of one word at most, which either stay as they are or do not."""
        word: list[int] = []
        for i in map(int, ids):
            if word and (self._begins[i] or self._fixed[i] != self._fixed[word[0]]):
                yield tuple(word)
                word = []
            word.append(i)
        if word:
            yield tuple(word)

    def _bpe(self, word: tuple[int, ...], draw: Callable[[], float]) -> Sequence[int]:
        alpha, at = self.alpha, self._words_kept.get(word) or self._beginning(word)
        while at.merges:
            for k, then in enumerate(at.then):  # the best that is not left out
                if draw() >= alpha:
                    at = then or self._merged(at, k)
                    break
            else:
                break
        return at.ids

    def _unigram(self, word: tuple[int, ...], draw: Callable[[], float]) -> list[int]:
        lattice, drawn = self._kept_lattice(word) if len(word) < LONG else self._lattice(word), list[int]()
        end = len(lattice) - 1
        while end:
            last = lattice[end]
            choice = min(bisect(last.sums, draw()), len(last.ids) - 1)
            drawn.append(last.ids[choice])
            end = last.starts[choice]
        return drawn[::-1]

    def _beginning(self, word: tuple[int, ...]) -> Merging:
        """In characters; in the pieces of `word` where the vocabulary lacks one."""
        characters = "".join(self.pieces[i] for i in word)
        known = all(character in self.ids for character in characters)
        begins = self._merging(tuple(self.ids[c] for c in characters) if known else word)
        if len(word) < LONG:
            self._words_kept[word] = begins
        return begins

    def _merged(self, at: Merging, k: int) -> Merging:
        """The word after its k-th merge."""
        ids, i = at.ids, at.merges[k]
        joined = self._joined(ids[i], ids[i + 1])
        assert joined is not None
        merged = self._merging((*ids[:i], joined, *ids[i + 2 :]))
        if len(ids) < LONG:
            at.then[k] = merged
        return merged

    def _merging(self, ids: tuple[int, ...]) -> Merging:
        if (kept := self._merging_kept.get(ids)) is not None:
            return kept
        joined = [self._joined(a, b) for a, b in pairwise(ids)]
        merges = sorted((-self._scores[piece], i) for i, piece in enumerate(joined) if piece is not None)
        merging = Merging(ids, [i for _, i in merges])
        if len(ids) < LONG:
            if len(self._merging_kept) >= N_KEPT:
                self._merging_kept, self._words_kept = {}, {}
            self._merging_kept[ids] = merging
        return merging

    def _join(self, a: int, b: int) -> int | None:
        """The piece of two neighbours."""
        return self.ids.get(self.pieces[a] + self.pieces[b])

    def _lattice(self, word: tuple[int, ...]) -> list[LastPieces]:
        """For each beginning of the word: forward filtering, then to be drawn from backwards."""
        text = "".join(self.pieces[i] for i in word)
        total, lattice = [0.0], [LastPieces([], [], [])]
        for end in range(1, len(text) + 1):
            reached = (i for i in range(max(0, end - self._longest), end) if total[i] > -math.inf)
            starts = [i for i in reached if text[i:end] in self.ids]
            logs = [total[i] + self.alpha * self._scores[self.ids[text[i:end]]] for i in starts]
            most = max(logs, default=-math.inf)
            weights = [math.exp(log - most) for log in logs]
            total.append(most + math.log(sum(weights)) if weights else -math.inf)
            sums = list(accumulate(weight / sum(weights) for weight in weights))
            lattice.append(LastPieces(starts, [self.ids[text[i:end]] for i in starts], sums))
        return lattice
