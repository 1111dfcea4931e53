"""The shipped ways to write a tree as symbols."""

from __future__ import annotations

__all__ = ["Brackets", "InOrder", "Released", "Vinyals"]

from typing import TYPE_CHECKING

from s2s_parsing.linear.actions import UNKNOWN_TAG, Action, Kind, Malformed, in_order
from s2s_parsing.linear.contract import Linear, Unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s_parsing.tree import Tree


class Released(Linear):
    """`S NP DT NN /NP VP VBD /VP /S`, as the paper's released code has it: words stand as their parts of speech."""

    tags = True

    def tokens(self, tree: Tree) -> list[str]:
        """Symbols; they are looked over, since nothing but its end tells a bracket from a part of speech."""
        actions = list(self.actions(tree))
        tokens = [self.write(action) for action in actions]
        for token, meant, understood in zip(tokens, actions, self.read(tokens), strict=True):
            if meant != understood or not token:
                raise Unwritable(f"'{token}' would be read as a symbol that {understood.kind.value}")
        return tokens

    def write(self, action: Action) -> str:
        """The label, with a stroke before it where it ends."""
        return f"/{action.label}" if action.kind is Kind.CLOSE else action.label or ""

    def read(self, symbols: Sequence[str]) -> list[Action]:
        """A label opens a bracket if any symbol closes one of that label; otherwise it is a part of speech."""
        labels = {symbol[1:] for symbol in symbols if symbol[:1] == "/"} - {""}
        return [self._read(symbol, labels) for symbol in symbols]

    def _read(self, symbol: str, labels: set[str]) -> Action:
        if symbol[:1] == "/" and len(symbol) > 1:
            return Action(Kind.CLOSE, symbol[1:])
        return Action(Kind.OPEN if symbol in labels else Kind.WORD, symbol)


class Vinyals(Linear):
    """`(S (NP XX XX )NP (VP XX )VP )S`, as Vinyals et al. (2015) have it: all parts of speech are one."""

    def write(self, action: Action) -> str:
        """A bracket with its label at either end."""
        if action.kind is Kind.WORD:
            return UNKNOWN_TAG
        return f"{'(' if action.kind is Kind.OPEN else ')'}{action.label}"

    def read(self, symbols: Sequence[str]) -> list[Action]:
        """What each symbol stands for."""
        kinds = {"(": Kind.OPEN, ")": Kind.CLOSE}
        return [
            Action(kinds[symbol[0]], symbol[1:]) if symbol[:1] in kinds else _word(symbol, UNKNOWN_TAG)
            for symbol in symbols
        ]


class Brackets(Linear):
    """`(S (NP * * ) (VP * ) )`: a label once, at the beginning, and every word the same."""

    word = "*"
    close = ")"

    def write(self, action: Action) -> str:
        """A bracket with its label, its end without."""
        if action.kind is Kind.OPEN:
            return f"({action.label}"
        return self.close if action.kind is Kind.CLOSE else self.word

    def read(self, symbols: Sequence[str]) -> list[Action]:
        """What each symbol stands for."""
        return [self._read(symbol) for symbol in symbols]

    def _read(self, symbol: str) -> Action:
        if symbol == self.close:
            return Action(Kind.CLOSE)
        return Action(Kind.OPEN, symbol[1:]) if symbol[:1] == "(" else _word(symbol, self.word)


class InOrder(Linear):
    """`SHIFT PJ-NP SHIFT REDUCE PJ-S SHIFT PJ-VP REDUCE REDUCE`: a label behind its first part (Liu and Zhang 2017)."""

    word = "SHIFT"
    close = "REDUCE"
    project = "PJ-"

    def actions(self, tree: Tree) -> Iterator[Action]:
        """Brackets behind their first parts."""
        return in_order(tree)

    def write(self, action: Action) -> str:
        """The paper's names of its actions; what it calls FINISH is the end of the sequence."""
        if action.kind is Kind.PROJECT:
            return f"{self.project}{action.label}"
        return self.close if action.kind is Kind.CLOSE else self.word

    def read(self, symbols: Sequence[str]) -> list[Action]:
        """What each symbol stands for."""
        return [self._read(symbol) for symbol in symbols]

    def _read(self, symbol: str) -> Action:
        if symbol == self.close:
            return Action(Kind.CLOSE)
        if symbol.startswith(self.project):
            return Action(Kind.PROJECT, symbol.removeprefix(self.project))
        return _word(symbol, self.word)


def _word(symbol: str, expected: str) -> Action:
    if symbol != expected:
        raise Malformed(f"'{symbol}' is no symbol of this form")
    return Action(Kind.WORD)
