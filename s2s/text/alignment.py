"""Which words of a translation belong to a part of its source, by links between their tokens."""

from __future__ import annotations

__all__ = ["Alignment"]

from bisect import bisect_left, bisect_right
from statistics import median
from typing import TYPE_CHECKING

from s2s.text.words import Atom, atoms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.text.annotated import Link

UNALIGNED = -0.01
"""Score of a word without links: less than nothing, so that no run ends with one"""
PROPORTION = 0.001
"""Most that is taken off the score of a word whose relative position in the text differs"""
DECAY = 0.5
"""Factor on the vote of a source word for each word between it and an element that stands alone"""
FROM_PUNCTUATION = 0.3
"""Factor on the vote of punctuation in the source, to which attention without purpose often goes"""


class Alignment:
    """The links of a source and a target, as votes of source tokens for the atoms of the target."""

    def __init__(
        self, source: str, target: str, links: Iterable[Link], copies: Sequence[tuple[int, int, int, int]] = ()
    ) -> None:
        """copies: links between a part of the source and its copy in the target, which is one atom."""
        self.n_source, self.n_target = len(source), len(target)
        clean = [one for one in (_stripped(source, target, *link) for link in links) if one]
        self.source = atoms(source, [cut for sb, se, _, _ in clean for cut in (sb, se)])
        self.target = _merged(atoms(target, [cut for _, _, tb, te in clean for cut in (tb, te)]), copies)
        self.votes: list[list[tuple[int, int]]] = [[] for _ in self.target]
        self.is_copy = [False] * len(self.target)
        begins, ends = [atom.begin for atom in self.target], [atom.end for atom in self.target]
        for sb, se, tb, te in clean:
            for i in range(bisect_right(ends, tb), bisect_left(begins, te)):
                self.votes[i].append((sb, se))
        for sb, se, tb, _ in copies:
            i = bisect_left(begins, tb)
            self.votes[i], self.is_copy[i] = [(sb, se)], True
        self._links = sorted(clean)
        self._link_begins, self._link_ends = [link[0] for link in self._links], [link[1] for link in self._links]
        self._source_ends = [atom.end for atom in self.source]

    def source_atoms(self, begin: int, end: int) -> list[Atom]:
        """The atoms of the source that overlap these characters."""
        i = bisect_right(self._source_ends, begin)
        return self.source[i : bisect_left(self.source, (end,), lo=i)] if begin < end else []

    def centre(self, begin: int, end: int) -> float:
        """About where in the target, in characters, these characters of the source are: the median of their links."""
        linked = self._links[bisect_right(self._link_ends, begin) : bisect_left(self._link_begins, end)]
        if not linked:
            return (begin + end) / 2 / max(self.n_source, 1) * self.n_target
        return median((tb + te) / 2 for _, _, tb, te in linked)

    def scores(self, begin: int, end: int) -> list[float]:
        """For each atom of the target, votes from these characters of the source less those from others, from 1 to -1.

        A copy counts more than all else: it belongs to what its original is in, and to nothing else.
        """
        centre = (begin + end) / 2 / max(self.n_source, 1)
        values = []
        for atom, votes, is_copy in zip(self.target, self.votes, self.is_copy, strict=True):
            offset = abs((atom.begin + atom.end) / 2 / max(self.n_target, 1) - centre)
            inside = sum(max(0, min(end, se) - max(begin, sb)) / (se - sb) for sb, se in votes)
            value = 2 * inside / len(votes) - 1 if votes else UNALIGNED
            values.append(value * (len(self.target) * 4 if is_copy else 1) - PROPORTION * offset)
        return values

    def sides(self, at: int) -> list[float]:
        """For each atom of the target, positive if it belongs before this place of the source, else negative.

        The next source words on both sides count most.
        """
        place = at / max(self.n_source, 1)
        values = []
        for atom, votes in zip(self.target, self.votes, strict=True):
            value = sum(self._side(at, sb, se, atom.is_word) for sb, se in votes) / max(len(votes), 1)
            is_before = (atom.begin + atom.end) / 2 / max(self.n_target, 1) < place
            values.append(value or (1e-6 if is_before else -1e-6))
        return values

    def _side(self, at: int, begin: int, end: int, of_word: bool) -> float:
        """The vote of one source token about the side of a place."""
        if begin < at < end:
            return 0.0
        first, here = bisect_right(self._source_ends, begin), bisect_right(self._source_ends, at)
        distance = here - 1 - first if end <= at else first - here
        is_punctuation = of_word and first < len(self.source) and not self.source[first].is_word
        weight = DECAY ** max(distance, 0) * (FROM_PUNCTUATION if is_punctuation else 1.0)
        return weight if end <= at else -weight


def _stripped(source: str, target: str, sb: int, se: int, tb: int, te: int) -> Link | None:
    """A link without white space at the edges; None if nothing remains."""
    (sb, se), (tb, te) = _without_blanks(source, sb, se), _without_blanks(target, tb, te)
    return (sb, se, tb, te) if sb < se and tb < te else None


def _without_blanks(text: str, begin: int, end: int) -> tuple[int, int]:
    begin, end = max(begin, 0), min(end, len(text))
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    return begin, end


def _merged(atoms: list[Atom], copies: Sequence[tuple[int, int, int, int]]) -> list[Atom]:
    """The atoms, those of each copy, which overlaps no other, as one."""
    places = sorted((begin, end) for _, _, begin, end in copies)
    ends = [end for _, end in places]

    def is_free(atom: Atom) -> bool:
        n = bisect_right(ends, atom.begin)
        return n == len(places) or atom.end <= places[n][0]

    return sorted([*filter(is_free, atoms), *(Atom(*place, is_word=True) for place in places)])
