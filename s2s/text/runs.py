"""Disjoint runs of words, one for each of several parts of a text, so that they fit best together."""

from __future__ import annotations

__all__ = ["AtomRun", "Demand", "best_run", "disjoint_runs"]

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.text.words import Atom


class AtomRun(NamedTuple):
    """Consecutive atoms, up to `end`."""

    begin: int
    end: int


class Demand(NamedTuple):
    """What a run must have at least; nothing: it may be empty."""

    n_words: int
    n_atoms: int


def best_run(scores: Sequence[float]) -> AtomRun:
    """The run of the highest sum, which is not empty (Kadane)."""
    best, total, begin = (scores[0], AtomRun(0, 1)), 0.0, 0
    for i, score in enumerate(scores):
        if total <= 0:
            total, begin = 0.0, i
        total += score
        best = max(best, (total, AtomRun(begin, i + 1)), key=lambda one: one[0])
    return best[1]


@dataclass(frozen=True)
class _Choice:
    """For each number of atoms, the best score of the first parts within them, and the run of the last part."""

    scores: list[float]
    runs: list[AtomRun | None]


def disjoint_runs(
    scores: Sequence[Sequence[float]], demands: Sequence[Demand], atoms: Sequence[Atom]
) -> list[AtomRun | None] | None:
    """A run for each part, in this order, of the highest sum of scores; None for an empty one.

    scores: for each part, those of all atoms. None if the demands cannot be met. Dynamic programming over the parts,
    O(parts x atoms).
    """
    n_words = [0, *accumulate(int(atom.is_word) for atom in atoms)]
    choices = [_Choice([0.0] * (len(atoms) + 1), [])]
    for values, demand in zip(scores, demands, strict=True):
        choices.append(_extended(choices[-1].scores, values, demand, n_words))
    if choices[-1].scores[-1] == -float("inf"):
        return None
    end, runs = len(atoms), list[AtomRun | None]()
    for choice in choices[:0:-1]:
        run = choice.runs[end]
        runs.append(run)
        end = run.begin if run else end
    return runs[::-1]


def _extended(before: Sequence[float], values: Sequence[float], demand: Demand, n_words: Sequence[int]) -> _Choice:
    """The best with one part more, from the best without it."""
    sums = [0.0, *accumulate(values)]
    may_be_empty = not demand.n_atoms
    scores, runs = [before[0] if may_be_empty else -float("inf")], list[AtomRun | None]([None])
    opened, best_open, begin = 0, -float("inf"), 0  # runs may begin at all places below `opened`
    for end in range(1, len(sums)):
        while opened <= end - max(demand.n_atoms, 1) and n_words[end] - n_words[opened] >= demand.n_words:
            if before[opened] - sums[opened] > best_open:
                best_open, begin = before[opened] - sums[opened], opened
            opened += 1
        options = [(scores[-1], runs[-1]), (best_open + sums[end], AtomRun(begin, end))]
        if may_be_empty:
            options.insert(0, (before[end], None))
        score, run = max(options, key=lambda one: one[0])
        scores.append(score)
        runs.append(run)
    return _Choice(scores, runs)
