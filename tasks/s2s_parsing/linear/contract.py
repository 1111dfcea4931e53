"""The contract of a linearisation: how a tree is written as symbols, and read from them again."""

from __future__ import annotations

__all__ = ["Linear", "LinearConfig", "Unwritable"]

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s import Choice
from s2s_parsing.linear.actions import Action, build, top_down

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.tree import Tree


@dataclass(kw_only=True)
class LinearConfig(Choice):
    """A linearisation without options of its own."""


class Unwritable(Exception):  # noqa: N818  the outcome of a writing
    """This tree has labels that the linearisation cannot tell apart."""


class Linear(ABC):
    """Writes trees as symbols, words left out, and makes trees of symbols and words.

    A newcomer writes `write` and `read`, and `actions` if his order is not top-down. Whatever `tokens` gives,
    `tree` makes the same tree of it again, save parts of speech that the form leaves out.
    """

    tags: bool = False
    """Whether the symbols say the words' parts of speech; where they do not, they are lost: `tree` is given them, or
    writes XX, which no tagging accuracy counts as right, and which EVALB does not take for punctuation."""

    def __init__(self, config: LinearConfig | None = None) -> None:
        self.config = config

    @abstractmethod
    def write(self, action: Action) -> str:
        """The symbol of an action, without blanks."""

    @abstractmethod
    def read(self, symbols: Sequence[str]) -> list[Action]:
        """What each of the symbols does: those of one output, or all of a vocabulary."""

    def actions(self, tree: Tree) -> Iterator[Action]:
        """What writing this tree consists of, in the order of the form."""
        return top_down(tree)

    def tokens(self, tree: Tree) -> list[str]:
        """The tree as symbols."""
        return [self.write(action) for action in self.actions(tree)]

    def tree(self, tokens: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
        """The tree of these words, or `Malformed` if the symbols are none; `tags` are taken for those written."""
        return build(self.read(tokens), words, tags)
