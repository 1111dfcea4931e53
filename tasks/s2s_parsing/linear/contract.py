"""The contract of a linearisation: a tree as a sequence of tokens, and back."""

from __future__ import annotations

__all__ = ["Linear", "LinearConfig", "UnwritableError"]

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


class UnwritableError(Exception):
    """The tree has labels that the linearisation cannot distinguish."""


class Linear(ABC):
    """Converts trees to tokens without words, and tokens with words to trees.

    A subclass defines `write` and `read`, and `actions` if its order is not top-down. `tree` inverts `tokens`, except
    for parts of speech that the form does not write.
    """

    tags: bool = False
    """Whether the tokens contain parts of speech. If not, `tree` takes them as an argument or writes XX, which is a
    wrong tag, and which EVALB does not treat as punctuation."""

    def __init__(self, config: LinearConfig | None = None) -> None:
        self.config = config

    @abstractmethod
    def write(self, action: Action) -> str:
        """The token of an action, without blanks."""

    @abstractmethod
    def read(self, tokens: Sequence[str]) -> list[Action]:
        """The action of each token, of one output or of a whole vocabulary."""

    def actions(self, tree: Tree) -> Iterator[Action]:
        """The actions of this tree in the order of the form."""
        return top_down(tree)

    def tokens(self, tree: Tree) -> list[str]:
        """The tree as tokens."""
        return [self.write(action) for action in self.actions(tree)]

    def tree(self, tokens: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
        """The tree over these words; raises MalformedError if the tokens form none. `tags` override their tags."""
        return build(self.read(tokens), words, tags)
