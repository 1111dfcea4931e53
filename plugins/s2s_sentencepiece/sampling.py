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
N_KEPT = 100_000
"""Words, or partly merged words, of which the possible next steps are kept in memory"""
LONG = 32
"""Tokens of a word from which on nothing of it is kept, such as of a sentence written without blanks"""


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
        self.scores = dict(zip(pieces, scores, strict=True))
        self._fixed = [i in (PAD, UNK, BOS, EOS) or bool(BYTE.fullmatch(p)) for i, p in enumerate(pieces)]
        self.ids = {piece: i for i, piece in enumerate(pieces) if not self._fixed[i]}
        self._begins = [piece.startswith(BLANK) for piece in pieces]
        self._longest = max(map(len, pieces))
        self._draw = self._bpe if kind == "bpe" else self._unigram
        self._kept_merges = lru_cache(N_KEPT)(self._merges)
        self._kept_characters = lru_cache(N_KEPT)(self._characters)
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

    def _bpe(self, word: tuple[int, ...], draw: Callable[[], float]) -> list[int]:
        alpha, state = self.alpha, self._kept_characters(word) if len(word) < LONG else self._characters(word)
        while merges := self._kept_merges(state) if len(state) < LONG else self._merges(state):
            for i in merges:  # the best that is not left out
                if draw() >= alpha:
                    state = (*state[:i], state[i] + state[i + 1], *state[i + 2 :])
                    break
            else:
                break
        return [self.ids[piece] for piece in state]

    def _unigram(self, word: tuple[int, ...], draw: Callable[[], float]) -> list[int]:
        lattice, drawn = self._kept_lattice(word) if len(word) < LONG else self._lattice(word), list[int]()
        end = len(lattice) - 1
        while end:
            last = lattice[end]
            choice = min(bisect(last.sums, draw()), len(last.ids) - 1)
            drawn.append(last.ids[choice])
            end = last.starts[choice]
        return drawn[::-1]

    def _characters(self, word: tuple[int, ...]) -> tuple[str, ...]:
        """The characters; the pieces of `word` where the vocabulary lacks one."""
        pieces = tuple(self.pieces[i] for i in word)
        characters = tuple("".join(pieces))
        return characters if all(character in self.ids for character in characters) else pieces

    def _merges(self, state: tuple[str, ...]) -> list[int]:
        """Where two neighbours can be merged: those of the highest score first, then from the left."""
        both = [a + b for a, b in pairwise(state)]
        merges = sorted((-self.scores[piece], i) for i, piece in enumerate(both) if piece in self.ids)
        return [i for _, i in merges]

    def _lattice(self, word: tuple[int, ...]) -> list[LastPieces]:
        """For each beginning of the word: forward filtering, then to be drawn from backwards."""
        text = "".join(self.pieces[i] for i in word)
        total, lattice = [0.0], [LastPieces([], [], [])]
        for end in range(1, len(text) + 1):
            reached = (i for i in range(max(0, end - self._longest), end) if total[i] > -math.inf)
            starts = [i for i in reached if text[i:end] in self.ids]
            logs = [total[i] + self.alpha * self.scores[text[i:end]] for i in starts]
            most = max(logs, default=-math.inf)
            weights = [math.exp(log - most) for log in logs]
            total.append(most + math.log(sum(weights)) if weights else -math.inf)
            sums = list(accumulate(weight / sum(weights) for weight in weights))
            lattice.append(LastPieces(starts, [self.ids[text[i:end]] for i in starts], sums))
        return lattice
