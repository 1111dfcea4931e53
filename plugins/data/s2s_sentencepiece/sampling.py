"""Subword regularisation: segmentations of a text that depend on a seed alone, the same in every process.

sentencepiece's own sampling (0.2.3) mixes a random number of the process into its seed: a resumed run would read other
subwords than one that was never stopped.
"""

from __future__ import annotations

__all__ = ["SubwordSampler"]

import math
import random
from bisect import bisect
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BLANK = "▁"
N_STATES = 200_000
"""Words and partly merged words that are cached with the results of their merges: 80 MB"""
N_LATTICES = 20_000
"""Words whose lattice of segmentations is cached: 70 MB"""
LONG = 32
"""Words of this many characters (tokens, for a lattice) or more, as in text without blanks, are not cached"""


class MergeState:
    """A partly merged word, its possible merges, and the state that each leads to."""

    __slots__ = ("ids", "merges", "next")

    def __init__(self, ids: tuple[int, ...], merges: list[int]) -> None:
        """merges: where two neighbours can be merged, the best first."""
        self.ids, self.merges = ids, merges
        self.next: list[MergeState | None] = [None] * len(merges)
        """The state after each merge; None: not computed yet"""


class LastPieces(NamedTuple):
    """The pieces that may end a prefix of a word: where each begins, its id, and cumulative probabilities."""

    starts: list[int]
    ids: list[int]
    sums: list[float]


class SubwordSampler:
    """Samples other subwords of the same text; unk, bytes and symbols stay as they are.

    bpe: at each step a merge is dropped with probability alpha (Provilkov et al., 2020, algorithm 1). unigram: a
    segmentation is drawn in proportion to its probability to the power of alpha (Kudo, 2018, section 3.1). Words are
    sampled one by one, since no subword spans two.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        scores: Sequence[float],
        kind: Literal["bpe", "unigram"],
        alpha: float,
        fixed: Sequence[bool],
    ) -> None:
        """pieces, scores and fixed are indexed by id; fixed: whether a token stays as it is."""
        self.pieces, self.alpha = pieces, alpha
        self._scores = scores
        self._fixed = fixed
        self.ids = {piece: i for i, piece in enumerate(pieces) if not self._fixed[i]}
        self._begins = [piece.startswith(BLANK) for piece in pieces]
        self._longest = max(map(len, pieces))
        self._draw = self._bpe if kind == "bpe" else self._unigram
        self._piece_of_pair = lru_cache(N_STATES)(self._find_piece)
        self._words: dict[tuple[int, ...], MergeState] = {}
        self._states: dict[tuple[int, ...], MergeState] = {}
        self._kept_lattice = lru_cache(N_LATTICES)(self._lattice)

    def __call__(self, ids: Sequence[int], seed: int) -> list[int]:
        """The text of `ids` in other subwords, which depend on both arguments alone."""
        draw, sample = random.Random(seed).random, list[int]()
        for word in self._split(ids):
            sample += word if self._fixed[word[0]] else self._draw(word, draw)
        return sample

    def _split(self, ids: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Runs of tokens within one word, each either all fixed or all to be resampled."""
        word: list[int] = []
        for i in map(int, ids):
            if word and (self._begins[i] or self._fixed[i] != self._fixed[word[0]]):
                yield tuple(word)
                word = []
            word.append(i)
        if word:
            yield tuple(word)

    def _bpe(self, word: tuple[int, ...], draw: Callable[[], float]) -> Sequence[int]:
        alpha, state = self.alpha, self._words.get(word) or self._characters(word)
        while state.merges:
            for k, after in enumerate(state.next):  # the best that is not dropped
                if draw() >= alpha:
                    state = after or self._merge(state, k)
                    break
            else:
                break
        return state.ids

    def _unigram(self, word: tuple[int, ...], draw: Callable[[], float]) -> list[int]:
        lattice, ids = self._kept_lattice(word) if len(word) < LONG else self._lattice(word), list[int]()
        end = len(lattice) - 1
        while end:
            last = lattice[end]
            choice = min(bisect(last.sums, draw()), len(last.ids) - 1)
            ids.append(last.ids[choice])
            end = last.starts[choice]
        return ids[::-1]

    def _characters(self, word: tuple[int, ...]) -> MergeState:
        """The word as characters, or as its given pieces if a character is not in the vocabulary."""
        characters = "".join(self.pieces[i] for i in word)
        known = all(character in self.ids for character in characters)
        state = self._state_of(tuple(self.ids[c] for c in characters) if known else word)
        if len(state.ids) < LONG:
            self._words[word] = state
        return state

    def _merge(self, state: MergeState, k: int) -> MergeState:
        """The state after the k-th merge of `state`."""
        ids, i = state.ids, state.merges[k]
        piece = self._piece_of_pair(ids[i], ids[i + 1])
        assert piece is not None
        after = self._state_of((*ids[:i], piece, *ids[i + 2 :]))
        if len(ids) < LONG:
            state.next[k] = after
        return after

    def _state_of(self, ids: tuple[int, ...]) -> MergeState:
        """The cached state of these pieces, or a new one if they are too many to cache; a full cache is emptied."""
        if (kept := self._states.get(ids)) is not None:
            return kept
        pieces = [self._piece_of_pair(a, b) for a, b in pairwise(ids)]
        merges = sorted((-self._scores[piece], i) for i, piece in enumerate(pieces) if piece is not None)
        state = MergeState(ids, [i for _, i in merges])
        if len(ids) < LONG:
            if len(self._states) >= N_STATES:
                self._states, self._words = {}, {}
            self._states[ids] = state
        return state

    def _find_piece(self, a: int, b: int) -> int | None:
        """The piece that two neighbours merge into; None if there is none."""
        return self.ids.get(self.pieces[a] + self.pieces[b])

    def _lattice(self, word: tuple[int, ...]) -> list[LastPieces]:
        """The last pieces of each prefix of the word, by forward filtering; to be drawn from backwards."""
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
