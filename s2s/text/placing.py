"""Where the elements inside of another one go: runs of target atoms for those with text, boundaries for the others."""

from __future__ import annotations

__all__ = ["place_children"]

import unicodedata
from itertools import accumulate
from typing import TYPE_CHECKING

from s2s.text.runs import AtomRun, Demand, best_run, disjoint_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.text.alignment import Alignment
    from s2s.text.nodes import Node
    from s2s.text.words import Atom

PUNCTUATION_SCORE = -0.5
"""Of punctuation for an element without any: inside of its run, but not at the edges"""


def place_children(node: Node, alignment: Alignment, source: str, target: str) -> None:
    """Set `run` or `boundary` of all elements inside of one that has a run."""
    assert node.run is not None
    _place_runs(node, alignment, source, target)
    _place_boundaries(node, alignment, source)
    for child in node.children:
        if child.run is not None and not child.keep:
            place_children(child, alignment, source, target)


def _place_runs(node: Node, alignment: Alignment, source: str, target: str) -> None:
    """The elements with text, in the order of their best runs, get those that fit best together."""
    begin, end = node.run or AtomRun(0, 0)
    children = [child for child in node.children if child.atoms]
    if not children or begin == end:
        return
    scores = {id(child): _scores(child, node, alignment, source, target)[begin:end] for child in children}
    children.sort(key=lambda child: sum(best_run(scores[id(child)])))  # stable
    atoms = alignment.target[begin:end]
    values = [scores[id(child)] for child in children]
    found: list[list[AtomRun | None]] = []
    for demands in _demands(children, atoms):
        if (some := disjoint_runs(values, demands, atoms)) is not None:
            found.append(some)
            if _has_copies(children, some, atoms):
                break
    runs = found[-1] if _has_copies(children, found[-1], atoms) else found[0]
    low = begin
    for n, (child, run) in enumerate(zip(children, runs, strict=True)):
        if run is None:
            continue
        following = next((later.begin + begin for later in runs[n + 1 :] if later), end)
        edges = _Edges(child, node, alignment.target, source, target)
        child.run = edges.adjusted(AtomRun(run.begin + begin, run.end + begin), AtomRun(low, following))
        low = child.run.end


def _scores(child: Node, node: Node, alignment: Alignment, source: str, target: str) -> list[float]:
    """For each atom of the target, how much it belongs into an element."""
    scores = alignment.scores(child.begin, child.end)
    pairs = list(zip(scores, alignment.target, strict=True))
    if child.copy is not None:
        return scores
    if _has_all_words(child, node):  # whatever the links say
        return [max(score, 1.0 if atom.is_word else 0.0) for score, atom in pairs]
    if child.keep:  # it replaces its run, which must not cost punctuation
        text = source[child.begin : child.end]
        is_other = [not atom.is_word and target[atom.begin] not in text for atom in alignment.target]
    else:
        is_other = [not atom.is_word and child.n_words == len(child.free_atoms) for atom in alignment.target]
    return [min(score, PUNCTUATION_SCORE) if other else score for score, other in zip(scores, is_other, strict=True)]


def _has_all_words(child: Node, node: Node) -> bool:
    """Whether an element has all words of the one around it that are translated."""
    return not child.keep and 0 < child.n_words == node.n_words


def _has_copies(children: Sequence[Node], runs: Sequence[AtomRun | None], atoms: Sequence[Atom]) -> bool:
    """Whether each kept element is around the copy of its text, if this is among the atoms."""
    places = {atom.begin for atom in atoms}
    return all(
        child.copy is None
        or child.copy[0] not in places
        or (run is not None and atoms[run.begin].begin == child.copy[0])
        for child, run in zip(children, runs, strict=True)
    )


def _demands(children: Sequence[Node], atoms: Sequence[Atom]) -> Iterable[list[Demand]]:
    """What each element needs, and then what it gets where there are too few atoms: less, and the last nothing."""
    demands = [child.demand for child in children]
    yield demands
    yield [Demand(n_words, n_words) for n_words, _ in demands]
    rest, some = len(atoms), []
    for demand in demands:
        some.append(Demand(0, min(demand.n_words, rest)))
        rest -= some[-1].n_atoms
    yield some


class _Edges:
    """Punctuation at the edges of a run, as the source has it."""

    def __init__(self, child: Node, node: Node, atoms: Sequence[Atom], source: str, target: str) -> None:
        self.child, self.node, self.atoms, self.source, self.target = child, node, atoms, source, target
        self.inner = child.free_atoms or child.atoms

    def adjusted(self, run: AtomRun, limits: AtomRun) -> AtomRun:
        """The run, with other edges if these are punctuation where the source has none, or the other way round."""
        if self.child.copy is not None:
            return run
        inner, outer = self.inner, self.node.free_atoms or self.node.atoms
        if _has_all_words(self.child, self.node):
            begin = limits.begin if inner[0] == outer[0] else self._trimmed_begin(AtomRun(limits.begin, run.end))
            end = limits.end if inner[-1] == outer[-1] else self._trimmed_end(AtomRun(begin, limits.end))
            return AtomRun(begin, end)
        begin = self._trimmed_begin(run) if inner[0].is_word else self._extended_begin(run, limits.begin)
        run = AtomRun(begin, run.end)
        return AtomRun(begin, self._trimmed_end(run) if inner[-1].is_word else self._extended_end(run, limits.end))

    def _trimmed_begin(self, run: AtomRun) -> int:
        begin = run.begin
        while not self.atoms[begin].is_word and self._is_enough(AtomRun(begin + 1, run.end)):
            begin += 1
        return begin

    def _trimmed_end(self, run: AtomRun) -> int:
        end = run.end
        while not self.atoms[end - 1].is_word and self._is_enough(AtomRun(run.begin, end - 1)):
            end -= 1
        return end

    def _is_enough(self, run: AtomRun) -> bool:
        """Whether a run has as much as the element needs, be it fewer words where there are none."""
        words = sum(atom.is_word for atom in self.atoms[run.begin : run.end])
        demand = self.child.demand
        return words >= max(demand.n_words, 1) and run.end - run.begin >= demand.n_atoms

    def _extended_begin(self, run: AtomRun, least: int) -> int:
        is_more = run.begin > least and self.atoms[run.begin].is_word
        return run.begin - int(is_more and self._corresponds(run.begin - 1, self.inner[0]))

    def _extended_end(self, run: AtomRun, most: int) -> int:
        is_more = run.end < most and self.atoms[run.end - 1].is_word
        return run.end + int(is_more and self._corresponds(run.end, self.inner[-1]))

    def _corresponds(self, i: int, original: Atom) -> bool:
        """Whether a target atom is punctuation of the same kind as one of the source."""
        atom = self.atoms[i]
        if atom.is_word:
            return False
        kinds = {unicodedata.category(self.target[atom.begin]), unicodedata.category(self.source[original.begin])}
        return len(kinds) == 1 or kinds <= {"Ps", "Pi", "Pf", "Pe"}


def _place_boundaries(node: Node, alignment: Alignment, source: str) -> None:
    """Elements without text go to the word that they are attached to, or where the words that the source has before
    them end and the others begin."""
    begin, end = node.run or AtomRun(0, 0)
    runs = [child.run for child in node.children if child.run]
    free = [at for at in range(begin, end + 1) if not any(run.begin < at < run.end for run in runs)]
    for child in (child for child in node.children if child.run is None):
        if not source[node.begin : child.begin].strip():
            child.boundary = begin
        elif not source[child.end : node.end].strip():
            child.boundary = end
        else:
            left, right = (_neighbour(child, alignment, AtomRun(begin, end), is_before=side) for side in (True, False))
            child.joins = left is not None and left == right
            place = right if left is None else left
            if place is None:
                sums = list(accumulate(alignment.sides(child.begin)[begin:end], initial=0.0))
                place = begin + max(range(len(sums)), key=sums.__getitem__)
            child.boundary = min(free, key=lambda at: abs(at - place))


def _neighbour(child: Node, alignment: Alignment, run: AtomRun, *, is_before: bool) -> int | None:
    """Where the word ends that stands before an element, without white space between, or the word behind begins.

    None: there is none, or it has no links within the run.
    """
    at = child.begin - 1 if is_before else child.end
    near = alignment.source_atoms(at, at + 1)
    if not near or not near[0].is_word:
        return None
    scores = alignment.scores(near[0].begin, near[0].end)[run.begin : run.end]
    if max(scores, default=0) <= 0:
        return None
    best = best_run(scores)
    return run.begin + (best.end if is_before else best.begin)
