"""Projects the elements of a source onto its translation.

An element with text goes around the run of target words for which the links into it less those from elsewhere are the
most; elements that are beside one another get disjoint runs, of the highest sum together, and those inside of another
one are placed within its run. All others stand where the words before them in the source are followed by those behind.
"""

from __future__ import annotations

__all__ = ["project"]

import re
from typing import TYPE_CHECKING

from s2s.text.alignment import Alignment
from s2s.text.annotated import AnnotatedText, Link, with_depths
from s2s.text.nodes import Node, tree
from s2s.text.placing import place_children
from s2s.text.runs import Run, best_run
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
    root.run = Run(0, len(alignment.target))
    place_children(root, alignment, source.text, target)
    text, order = written(root, alignment.target, source.text, target)
    return _annotated(source, text, [(nodes.index(node), node.place) for node in order])


def _copies(root: Node, alignment: Alignment, source: str, target: str) -> list[Link]:
    """Where the target has the texts of kept elements: of several places that nearest to the words aligned with it."""
    begins, ends = {atom.begin for atom in alignment.target}, {atom.end for atom in alignment.target}
    copies: list[Link] = []
    for node in root.kept():
        text = source[node.begin : node.end].strip()
        places = [
            (one.start(), one.end())
            for one in re.finditer(re.escape(text), target)
            if one.start() in begins
            and one.end() in ends
            and not any(one.start() < end and begin < one.end() for _, _, begin, end in copies)
        ]
        if places:
            run = best_run(alignment.scores(node.begin, node.end))
            begin, end = alignment.target[run.begin].begin, alignment.target[run.end - 1].end
            node.copy = min(places, key=lambda place: abs(sum(place) - begin - end))
            copies.append((node.begin, node.end, *node.copy))
    return copies


def _annotated(source: AnnotatedText, text: str, order: Sequence[tuple[int, tuple[int, int]]]) -> AnnotatedText:
    """The text with the elements at their places, given by their indices in the source, in the order of the target."""
    spans = [source.spans[i]._replace(begin=begin, end=end) for i, (begin, end) in order]
    new = {i: n for n, (i, _) in enumerate(order)} | {-1: -1}
    return with_depths(text, spans, [new[source.parents[i]] for i, _ in order])
