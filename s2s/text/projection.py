"""Projects the elements of a source onto its translation.

An element with text goes around the run of target words for which the links into it less those from elsewhere are the
most; elements that are beside one another get disjoint runs, of the highest sum together, and those inside of another
one are placed within its run. All others stand where the words before them in the source are followed by those behind.
"""

from __future__ import annotations

__all__ = ["project"]

from bisect import bisect_left
from typing import TYPE_CHECKING

from s2s.text.alignment import Alignment
from s2s.text.annotated import AnnotatedText, Link, with_depths
from s2s.text.nodes import Node, tree
from s2s.text.placing import place_children
from s2s.text.runs import AtomRun
from s2s.text.writing import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def project(source: AnnotatedText, target: str, links: Iterable[Link] = ()) -> AnnotatedText:
    """The target with every element of the source once, nested as there, and never inside a word.

    Its text is the target's, but the text of a kept element is that of the source: where the target has it, the
    element goes around it; else it replaces the words aligned with it; else it is inserted where it belongs.
    """
    if not source.spans:
        return AnnotatedText(target)
    links = list(links)
    alignment = Alignment(source.text, target, links)
    root, nodes = tree(source, alignment)
    if copies := _copies(root, alignment, source.text, target):
        alignment = Alignment(source.text, target, links, copies)
    root.run = AtomRun(0, len(alignment.target))
    place_children(root, alignment, source.text, target)
    text, order = written(root, alignment.target, source.text, target)
    index = {node: i for i, node in enumerate(nodes)}
    return _annotated(source, text, [(index[node], node.place) for node in order])


def _copies(root: Node, alignment: Alignment, source: str, target: str) -> list[Link]:
    """Where the target has the texts of kept elements: of several places that nearest to the words aligned with it.

    Elements with nothing between them are looked for as one.
    """
    groups: list[list[Node]] = []
    for node in root.kept():
        if groups and groups[-1][-1].end == node.begin and _has_edges(source, groups[-1][-1], node):
            groups[-1].append(node)
        else:
            groups.append([node])
    places = _Places([*groups, *([node] for group in groups for node in group)], alignment, source, target)
    return [
        copy
        for group in groups
        for copy in places.take(group) or [one for node in group for one in places.take([node])]
    ]


def _has_edges(source: str, node: Node, other: Node) -> bool:
    """Whether neither of two neighbours has white space between their texts."""
    return not source[node.end - 1].isspace() and not source[other.begin].isspace()


class _Places:
    """Where words of the target begin that have the text of some kept elements, disjoint from all that were taken."""

    def __init__(self, groups: Sequence[Sequence[Node]], alignment: Alignment, source: str, target: str) -> None:
        self.alignment, self.source = alignment, source
        self.places: dict[str, list[int]] = {self._text(group): [] for group in groups}
        self.taken = bytearray(len(target))
        ends = {atom.end for atom in alignment.target}
        for length in {len(text) for text in self.places}:
            for begin, _, _ in alignment.target:
                if begin + length in ends and (some := self.places.get(target[begin : begin + length])) is not None:
                    some.append(begin)

    def _text(self, group: Sequence[Node]) -> str:
        return self.source[group[0].begin : group[-1].end].strip()

    def take(self, group: Sequence[Node]) -> list[Link]:
        """The copies of neighbours that are nearest to the words aligned with them; none if there are none left."""
        text, copies = self._text(group), list[Link]()
        begin = self._nearest(text, self.alignment.centre(group[0].begin, group[-1].end) - len(text) / 2)
        if begin is None:
            return []
        for node in group:
            end = begin + len(self._text([node]))
            node.copy = begin, end
            copies.append((node.begin, node.end, begin, end))
            begin = end
        return copies

    def _nearest(self, text: str, best: float) -> int | None:
        places = self.places[text]
        while places:
            n = bisect_left(places, best)
            begin = min(places[max(n - 1, 0) : n + 1], key=lambda place: abs(place - best))
            places.remove(begin)
            if not any(self.taken[begin : begin + len(text)]):
                self.taken[begin : begin + len(text)] = b"\1" * len(text)
                return begin
        return None


def _annotated(source: AnnotatedText, text: str, order: Sequence[tuple[int, tuple[int, int]]]) -> AnnotatedText:
    """The text with the elements at their places, given by their indices in the source, in the order of the target."""
    spans = [source.spans[i]._replace(begin=begin, end=end) for i, (begin, end) in order]
    new = {i: n for n, (i, _) in enumerate(order)} | {-1: -1}
    return with_depths(text, spans, [new[source.parents[i]] for i, _ in order])
