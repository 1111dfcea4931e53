"""Trees whose brackets may have gaps, and the rule that makes them continuous.

Boyd (2007): a bracket with gaps becomes one bracket for each of its continuous parts, all marked with `*`. Words that
are attached to the root, as punctuation is in Negra and TIGER, are first moved into the lowest bracket around them, so
that they make no gaps.
"""

from __future__ import annotations

__all__ = ["PART", "Constituent", "Discontinuity", "DiscontinuousError", "continuous", "label_text", "word_text"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from s2s_parsing.tree import TOP, Node, Tree, Word
from s2s_parsing.treebank.brackets import WRAPPERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PART = "*"
"""Behind the label of a bracket that is a part of one with gaps"""
Discontinuity = Literal["split", "refuse"]
"""What becomes of a bracket with gaps: a bracket for each continuous part, or an error."""


class DiscontinuousError(Exception):
    """Why a tree cannot be made continuous; caught by the readers."""


@dataclass(eq=False)
class Constituent:
    """A bracket; its children are brackets, and positions of words."""

    label: str
    function: str = ""
    children: list[Constituent | int] = field(default_factory=list)

    def brackets(self) -> Iterator[Constituent]:
        """The children that are brackets."""
        return (child for child in self.children if isinstance(child, Constituent))


class _Part(NamedTuple):
    """A node over the words from `begin` up to `end`."""

    begin: int
    end: int
    node: Node


def label_text(label: str) -> str:
    """A label or tag without round brackets, which are those of trees: $( -> $[."""
    return label.replace("(", "[").replace(")", "]") or "--"


def word_text(word: str) -> str:
    """A word without round brackets and blanks."""
    return "_".join(word.replace("(", "-LRB-").replace(")", "-RRB-").split()) or "_"


def continuous(root: Constituent, words: Sequence[Word], rule: Discontinuity) -> Tree:
    """The tree under TOP; raises DiscontinuousError for a refused gap, and for what is no tree over the words."""
    while len(root.children) == 1 and isinstance(only := root.children[0], Constituent) and only.label in WRAPPERS:
        root = only
    order = _checked_order(root, len(words))
    _lower_words(root, order)
    parts: dict[int, list[_Part]] = {}
    for one in reversed(order[1:]):
        runs = _runs(one, words, parts)
        if len(runs) > 1 and rule == "refuse":
            raise DiscontinuousError(f"the bracket {one.label} has a gap; task.discontinuity=split splits such ones")
        mark = PART if len(runs) > 1 else ""
        function = f"-{one.function}" if one.function else ""
        label = f"{label_text(one.label)}{mark}{function}"
        parts[id(one)] = [_Part(run[0].begin, run[-1].end, Tree(label, tuple(p.node for p in run))) for run in runs]
    (run,) = _runs(root, words, parts)
    return Tree(TOP, tuple(part.node for part in run))


def _checked_order(root: Constituent, n_words: int) -> list[Constituent]:
    """All brackets, each before those in it; raises DiscontinuousError unless each word is in the tree exactly once."""
    order, stack, positions = list[Constituent](), [root], list[int]()
    while stack:
        one = stack.pop()
        order.append(one)
        if len(order) > 100 * (n_words + 10):
            raise DiscontinuousError("its brackets contain one another")
        if not one.children:
            raise DiscontinuousError(f"the bracket {one.label} is empty")
        stack.extend(one.brackets())
        positions += (child for child in one.children if isinstance(child, int))
    if sorted(positions) != list(range(n_words)):
        raise DiscontinuousError("not every word is in the tree exactly once")
    return order


def _lower_words(root: Constituent, order: Sequence[Constituent]) -> None:
    """Move words of the root into the lowest bracket that begins before and ends behind them."""
    spans: dict[int, tuple[int, int]] = {}
    for one in reversed(order):
        ends = [end for child in one.children for end in _ends(child, spans)]
        spans[id(one)] = min(ends), max(ends)
    for position in [child for child in root.children if isinstance(child, int)]:
        lowest = root
        while around := [one for one in lowest.brackets() if spans[id(one)][0] < position < spans[id(one)][1]]:
            lowest = min(around, key=lambda one: spans[id(one)][1] - spans[id(one)][0])
        if lowest is not root:
            root.children.remove(position)
            lowest.children.append(position)


def _ends(child: Constituent | int, spans: dict[int, tuple[int, int]]) -> tuple[int, ...]:
    return (child,) if isinstance(child, int) else spans[id(child)]


def _runs(one: Constituent, words: Sequence[Word], parts: dict[int, list[_Part]]) -> list[list[_Part]]:
    """What is in a bracket, in the order of the words, in continuous runs."""
    inside = [_Part(child, child + 1, words[child]) for child in one.children if isinstance(child, int)]
    inside += [part for child in one.brackets() for part in parts[id(child)]]
    runs: list[list[_Part]] = []
    for part in sorted(inside, key=lambda part: part.begin):
        if runs and runs[-1][-1].end == part.begin:
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs
