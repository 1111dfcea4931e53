"""The shipped linearisations."""

from __future__ import annotations

__all__ = ["Brackets", "InOrder", "Released", "Vinyals"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import UNKNOWN_TAG, Action, Kind, MalformedError, in_order
from s2s_parsing.linear.contract import Linear, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.tree import Tree


class Released(Linear):
    """`S NP DT NN /NP VP VBD /VP /S`, as in the paper's released code: words are written as their parts of speech."""

    tags = True

    def tokens(self, tree: Tree) -> list[str]:
        """The tokens; raises UnwritableError if a label could be read as a part of speech, or the reverse."""
        actions = list(self.actions(tree))
        tokens = [self.write(action) for action in actions]
        for token, meant, understood in zip(tokens, actions, self.read(tokens), strict=True):
            if meant != understood or not token:
                raise UnwritableError(f"'{token}' would be read as a token that {understood.kind.value}")
        return tokens

    def write(self, action: Action) -> str:
        """The label, with a slash before it if it closes a bracket."""
        return f"/{action.label}" if action.kind is Kind.CLOSE else action.label or ""

    def read(self, tokens: Sequence[str]) -> list[Action]:
        """A label opens a bracket if any token closes one of that label; otherwise it is a part of speech."""
        labels = {token[1:] for token in tokens if token[:1] == "/"} - {""}
        return [self._read(token, labels) for token in tokens]

    def _read(self, token: str, labels: set[str]) -> Action:
        if token[:1] == "/" and len(token) > 1:
            return Action(Kind.CLOSE, token[1:])
        return Action(Kind.OPEN if token in labels else Kind.WORD, token)


class Vinyals(Linear):
    """`(S (NP XX XX )NP (VP XX )VP )S`, as in Vinyals et al. (2015): one token for all parts of speech."""

    def write(self, action: Action) -> str:
        """A bracket with its label on both sides."""
        if action.kind is Kind.WORD:
            return UNKNOWN_TAG
        return f"{'(' if action.kind is Kind.OPEN else ')'}{action.label}"

    def read(self, tokens: Sequence[str]) -> list[Action]:
        """The action of each token."""
        kinds = {"(": Kind.OPEN, ")": Kind.CLOSE}
        return [
            Action(kinds[token[0]], token[1:]) if token[:1] in kinds else _word(token, UNKNOWN_TAG) for token in tokens
        ]


class Brackets(Linear):
    """`(S (NP * * ) (VP * ) )`: a label only where a bracket opens, one token for all words."""

    word = "*"
    close = ")"

    def write(self, action: Action) -> str:
        """An opening bracket with its label, a closing one without."""
        if action.kind is Kind.OPEN:
            return f"({action.label}"
        return self.close if action.kind is Kind.CLOSE else self.word

    def read(self, tokens: Sequence[str]) -> list[Action]:
        """The action of each token."""
        return [self._read(token) for token in tokens]

    def _read(self, token: str) -> Action:
        if token == self.close:
            return Action(Kind.CLOSE)
        return Action(Kind.OPEN, token[1:]) if token[:1] == "(" else _word(token, self.word)


class InOrder(Linear):
    """`SHIFT PJ-NP SHIFT REDUCE PJ-S SHIFT PJ-VP REDUCE REDUCE`: a label after its first child (Liu and Zhang 2017)."""

    word = "SHIFT"
    close = "REDUCE"
    project = "PJ-"

    def actions(self, tree: Tree) -> Iterator[Action]:
        """Brackets after their first children."""
        return in_order(tree)

    def write(self, action: Action) -> str:
        """The names of the actions in the paper, whose FINISH is eos."""
        if action.kind is Kind.PROJECT:
            return f"{self.project}{action.label}"
        return self.close if action.kind is Kind.CLOSE else self.word

    def read(self, tokens: Sequence[str]) -> list[Action]:
        """The action of each token."""
        return [self._read(token) for token in tokens]

    def _read(self, token: str) -> Action:
        if token == self.close:
            return Action(Kind.CLOSE)
        if token.startswith(self.project):
            return Action(Kind.PROJECT, token.removeprefix(self.project))
        return _word(token, self.word)


def _word(token: str, expected: str) -> Action:
    if token != expected:
        raise MalformedError(f"'{token}' is not a token of this form")
    return Action(Kind.WORD)
