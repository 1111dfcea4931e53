"""Discbracket: brackets whose leaves are numbers of words, as in `(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))`.

Older files of disco-dop have `(VB 0)`, and the words behind a tab.
"""

from __future__ import annotations

__all__ = ["LEAF", "read_discbracket"]

import re
from typing import TYPE_CHECKING

from s2s_parsing.tree import Tree, Word, fold
from s2s_parsing.treebank.brackets import EmptiedTree, MalformedTree, read_brackets
from s2s_parsing.treebank.discontinuous import Constituent, Discontinuity, DiscontinuousError, continuous, word_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEAF = re.compile(r"(\d+)(?:=(.*))?")


def read_discbracket(lines: Iterable[tuple[int, str]], rule: Discontinuity) -> Iterator[Tree | MalformedTree]:
    """The tree of each line."""
    for number, line in lines:
        brackets, _, words = line.partition("\t")
        for tree in read_brackets([(number, brackets)]) if brackets.strip() else ():
            assert not isinstance(tree, EmptiedTree), "nothing is left out"
            yield tree if isinstance(tree, MalformedTree) else _tree(tree, words.split(), number, rule)


def _tree(tree: Tree, behind: list[str], line: int, rule: Discontinuity) -> Tree | MalformedTree:
    words: dict[int, Word] = {}

    def leaf(tag: str, text: str) -> Constituent | int:
        number = LEAF.fullmatch(text)
        if number is None:
            raise DiscontinuousError(f"the word {text} has no number, as in 0=is")
        position = int(number[1])
        if position in words:
            raise DiscontinuousError(f"two words have the number {position}")
        if number[2] is None and position >= len(behind):
            raise DiscontinuousError(f"word {position} is not among those behind the tree")
        words[position] = Word(tag, word_text(behind[position] if number[2] is None else number[2]))
        return position

    def bracket(label: str, children: list[Constituent | int]) -> Constituent | int:
        return Constituent(label, "", children)

    try:
        root = fold(tree, leaf, bracket)
        assert isinstance(root, Constituent), "a bracket stays one"
        if sorted(words) != list(range(len(words))):
            raise DiscontinuousError(f"its {len(words)} words are not numbered from 0 without gaps")
        return continuous(root, [words[i] for i in range(len(words))], rule)
    except DiscontinuousError as error:
        return MalformedTree(line, str(error))
