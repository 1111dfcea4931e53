"""Words with numbers, so that each stands for the same word on both sides.

Which word comes next, a decoder must otherwise count, and a model that cannot yet count learns nothing else. Numbers
begin again after a while: all are then common, and words that share one stand too far apart to be confused.
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
"""Words after which the numbers begin again"""


class Numbered(Linear):
    """Another form, with each word's number behind its symbol; when it is read, any number will do."""

    def __init__(self, form: Linear) -> None:
        super().__init__(form.config)
        self.form, self.tags = form, form.tags

    def write(self, action: Action) -> str:
        """The other form's symbol: an action by itself has no number."""
        return self.form.write(action)

    def read(self, symbols: Sequence[str]) -> list[Action]:
        """What each symbol does in the other form."""
        return self.form.read([symbol.partition(" ")[0] for symbol in symbols])

    def actions(self, tree: Tree) -> Iterator[Action]:
        """Those of the other form."""
        return self.form.actions(tree)

    def tokens(self, tree: Tree) -> list[str]:
        """Symbols, those of words with a blank, which no other has, and the number."""
        numbers = itertools.cycle(range(PERIOD))
        return [
            f"{token} {next(numbers)}" if action.kind is Kind.WORD else token
            for token, action in zip(self.form.tokens(tree), self.actions(tree), strict=True)
        ]
