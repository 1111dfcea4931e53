"""Adds parts of speech to words in a form that writes none: the tags are then predicted with the tree."""

from __future__ import annotations

__all__ = ["Tagged"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import Action, Kind
from s2s_parsing.linear.contract import Linear

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.tree import Tree


class Tagged(Linear):
    """Another form, in which a word's token is followed by a blank and the tag: `SHIFT NN`."""

    tags = True

    def __init__(self, form: Linear) -> None:
        super().__init__(form.config)
        self.form = form

    def write(self, action: Action) -> str:
        """The other form's token, and a word's tag."""
        token = self.form.write(action)
        return f"{token} {action.label}" if action.kind is Kind.WORD and action.label else token

    def read(self, tokens: Sequence[str]) -> list[Action]:
        """The actions in the other form, with tags at words."""
        parted = [token.partition(" ") for token in tokens]
        actions = self.form.read([token for token, _, _ in parted])
        return [
            Action(Kind.WORD, tag) if tag and action.kind is Kind.WORD else action
            for action, (_, _, tag) in zip(actions, parted, strict=True)
        ]

    def actions(self, tree: Tree) -> Iterator[Action]:
        """The actions of the other form."""
        return self.form.actions(tree)
