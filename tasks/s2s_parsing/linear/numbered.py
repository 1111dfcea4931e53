"""Numbered words, so that the same number denotes the same word in source and target.

Without numbers, a decoder must count words to find the next one, which a model trained on few trees learns late.
Numbers repeat, so that each is frequent; words with the same number are too far apart to be confused.
"""

from __future__ import annotations

__all__ = ["PERIOD", "Numbered"]

import itertools
from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import Action, Kind
from s2s_parsing.linear.contract import Linear

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.tree import Tree

PERIOD = 16
"""Number of different numbers"""


class Numbered(Linear):
    """Another form with a number after each word's token; any number is accepted when read."""

    def __init__(self, form: Linear) -> None:
        super().__init__(form.config)
        self.form, self.tags = form, form.tags

    def write(self, action: Action) -> str:
        """The other form's token, without a number."""
        return self.form.write(action)

    def read(self, tokens: Sequence[str]) -> list[Action]:
        """The actions in the other form."""
        return self.form.read([token.partition(" ")[0] for token in tokens])

    def actions(self, tree: Tree) -> Iterator[Action]:
        """The actions of the other form."""
        return self.form.actions(tree)

    def tokens(self, tree: Tree) -> list[str]:
        """The tokens; those of words end in a blank and the number."""
        numbers = itertools.cycle(range(PERIOD))
        return [
            f"{token} {next(numbers)}" if action.kind is Kind.WORD else token
            for token, action in zip(self.form.tokens(tree), self.actions(tree), strict=True)
        ]
