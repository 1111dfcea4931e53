"""Target symbols: learnt from a treebank, written to a file, and what each of them does to a tree."""

from __future__ import annotations

__all__ = ["Symbols", "learn_symbols", "load_symbols", "save_symbols"]

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from s2s.data.subwords import UNK
from s2s.data.text import missing
from s2s.errors import DataError
from s2s.io.atomic import write_file
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.linear import Kind, Malformed, build, mend
from s2s_parsing.punctuation import Punctuation
from s2s_parsing.tree import leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s_parsing.linear import Action, Linear
    from s2s_parsing.tree import Tree

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


class Symbols:
    """The vocabulary of one linearisation, how deep its trees are, and what is punctuation."""

    def __init__(self, form: Linear, symbols: Sequence[str], punctuation: Punctuation, bounds: Bounds) -> None:
        self.form, self.bounds = form, bounds
        self.symbols = [*SPECIAL, *symbols]
        self.ids = {symbol: i for i, symbol in enumerate(self.symbols)}
        self.actions: list[Action | None] = [None] * len(SPECIAL) + form.read(symbols)
        """What each id does; None for those that are special"""
        self.punctuation = punctuation
        """What is punctuation, whatever an output says of it"""

    @property
    def size(self) -> int:
        """Symbols, special ones included."""
        return len(self.symbols)

    def encode(self, tree: Tree) -> list[int]:
        """Ids of a tree; a symbol that was never seen in training is unknown."""
        return [self.ids.get(token, UNK) for token in self.form.tokens(tree)]

    def decode(self, ids: Sequence[int], words: Sequence[str]) -> tuple[Tree, bool]:
        """The tree of these words, and whether it had to be mended."""
        actions = [action for action in (self.actions[i] for i in ids) if action]
        try:
            if len(actions) == len(ids):
                return self.punctuation.retag(build(actions, words)), False
        except Malformed:
            pass
        return self.punctuation.retag(mend(actions, words)), True


def learn_symbols(form: Linear, trees: Iterable[Tree]) -> Symbols:
    """All symbols of a treebank's trees, the commonest first."""
    counts: Counter[tuple[str, Kind]] = Counter()
    tags: Counter[tuple[str, str]] = Counter()
    bounds = Bounds(0, 0)
    for tree in trees:
        actions = list(form.actions(tree))
        counts.update(zip(form.tokens(tree), (action.kind for action in actions), strict=True))
        bounds = Bounds.of([actions]).over(bounds)
        tags.update(leaves(tree))
    if not counts:
        raise DataError("task.train: there is no tree to learn symbols from; check the treebank's files")
    order = sorted(counts, key=lambda symbol: (-counts[symbol], symbol[0]))
    learnt = Symbols(form, [symbol for symbol, _ in order], Punctuation.learn(tags), bounds)
    _refuse_ambiguous(learnt, order)
    return learnt


def _refuse_ambiguous(learnt: Symbols, meant: Iterable[tuple[str, Kind]]) -> None:
    """One symbol does one thing, in all trees and by itself."""
    for symbol, kind in meant:
        read = learnt.actions[learnt.ids[symbol]]
        if read is None or read.kind is not kind:
            name = learnt.form.config.name if learnt.form.config else type(learnt.form).__name__
            raise DataError(
                f"task.linear={name}: '{symbol}' {kind.value} in some tree of the treebank, and does something else "
                "in another; take a form that marks brackets, such as task.linear=brackets"
            )


def save_symbols(symbols: Symbols, path: Path) -> None:
    """Write them to a file."""
    written = {
        "symbols": symbols.symbols[len(SPECIAL) :],
        "bounds": symbols.bounds._asdict(),
        "punctuation": dict(symbols.punctuation.tags),
    }
    write_file(path, json.dumps(written, ensure_ascii=False, indent=1).encode() + b"\n")


def load_symbols(form: Linear, path: Path) -> Symbols:
    """Read them from a file."""
    try:
        written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        bounds = Bounds(**written["bounds"])
        return Symbols(form, written["symbols"], Punctuation(written["punctuation"]), bounds)
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError, KeyError, TypeError, Malformed) as error:
        raise DataError(f"{path}: not the target symbols of this form ({error}); prepare again") from None
