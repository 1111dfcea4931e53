"""Treebanks as arrays: binarised trees, with all nodes of all trees in one array.

A tree is binarised to the right with intermediate symbols (X -> A @X, @X -> B @X, @X -> C D: vertical order 1,
horizontal order 0, as in Petrov et al., 2006, section 2). Each word or binary node has at most one unary node above it,
whose symbol joins a chain of labels. The outermost bracket TOP is removed, and restored when a tree is written.

Shapes: N nodes of all trees.
"""

from __future__ import annotations

__all__ = ["CHAIN", "Forest", "Symbols", "forest_of", "written"]

import re
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s2s import DataError
from s2s_pcfg.words import BLANK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    WordClass = Callable[[str, str, int], str]
    """Tag, word, position in the sentence, from 0 -> the class by which the grammar represents the word"""

TOP = "TOP"
CHAIN, BETWEEN = "→", "@"
"""Joins the labels of a unary chain; begins an intermediate symbol"""
TOKEN = re.compile(rf"\(([^{BLANK}()]*)|(\))|([^{BLANK}()]+)")
"""An opening bracket with its label, a closing one, or a word"""


class Symbols:
    """Names and their numbers, assigned in the order of first use."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = list(names)
        self.ids = {name: i for i, name in enumerate(self.names)}

    def add(self, name: str) -> int:
        """The number of a name, which is added if it is new."""
        if name not in self.ids:
            self.ids[name] = len(self.names)
            self.names.append(name)
        return self.ids[name]

    def __len__(self) -> int:
        return len(self.names)


class Forest(NamedTuple):
    """All nodes of all trees, children before parents."""

    rule: Tensor
    """[N], the number of a node's rule among the binary, unary or lexical rules"""
    left: Tensor
    """[N], the first child's node; -1 at words"""
    right: Tensor
    """[N], the second child's; -1 where there is none"""
    height: Tensor
    """[N], 0 at words"""
    symbol: Tensor
    """[N]"""
    weight: Tensor
    """[N], how often the tree of a node counts"""
    roots: Tensor
    """[trees]"""
    binary: Tensor
    """[R, 3], symbols of each binary rule"""
    unary: Tensor
    """[U, 2]"""
    lexical: Tensor
    """[L, 2], tag and word class"""


class _Builder:
    """Builds a forest, node by node."""

    def __init__(self, symbols: Symbols, words: Symbols, word_class: WordClass) -> None:
        self.symbols, self.words, self.word_class = symbols, words, word_class
        self.rules: dict[str, dict[tuple[int, ...], int]] = {"lexical": {}, "unary": {}, "binary": {}}
        self.nodes: list[tuple[int, int, int, int, int]] = []
        self.roots: list[int] = []

    def node(self, symbol: int, rule: tuple[int, ...], left: int, right: int) -> int:
        kind = self.rules["lexical" if left < 0 else "unary" if right < 0 else "binary"]
        number = kind.setdefault(rule, len(kind))
        height = 1 + max((self.nodes[child][3] for child in (left, right) if child >= 0), default=-1)
        self.nodes.append((number, left, right, height, symbol))
        return len(self.nodes) - 1

    def word(self, tag: str, word: str, position: int) -> int:
        symbol = self.symbols.add(tag)
        return self.node(symbol, (symbol, self.words.add(self.word_class(tag, word, position))), -1, -1)

    def bracket(self, label: str, children: list[int]) -> int:
        """A node over the children; chains of unary nodes are joined into one."""
        if len(children) == 1:
            (child,) = children
            _, below, beside, height, symbol = self.nodes[child]
            if height and beside < 0:  # itself a unary node, the last one added
                label, child = f"{label}{CHAIN}{self.symbols.names[symbol]}", below
                self._forget()
            upper = self.symbols.add(label)
            return self.node(upper, (upper, self._symbol(child)), child, -1)
        between = self.symbols.add(BETWEEN + label) if len(children) > 2 else -1
        right = children[-1]
        for i in range(len(children) - 2, -1, -1):
            symbol = between if i else self.symbols.add(label)
            right = self.node(symbol, (symbol, self._symbol(children[i]), self._symbol(right)), children[i], right)
        return right

    def _forget(self) -> None:
        """Remove the last node; its rule stays, with a count of zero unless another tree uses it."""
        self.nodes.pop()

    def _symbol(self, node: int) -> int:
        return self.nodes[node][4]


def forest_of(
    trees: Iterable[str],
    symbols: Symbols,
    words: Symbols,
    word_class: WordClass,
    weights: Sequence[float] | None = None,
) -> Forest:
    """The forest of bracketed trees, one per line; weights: how often each counts, once by default."""
    builder = _Builder(symbols, words, word_class)
    for tree in trees:
        builder.roots.append(_read(tree, builder))
    if not builder.roots:
        raise DataError("there is no tree to learn from; check the treebank's files")
    rule, left, right, height, symbol = torch.tensor(builder.nodes).T
    rules = (torch.tensor(list(of), dtype=torch.long) for of in builder.rules.values())
    lexical, unary, binary = (of.view(-1, n) for of, n in zip(rules, (2, 2, 3), strict=True))
    roots = torch.tensor(builder.roots)
    tree_weights = torch.tensor([1.0] * len(roots) if weights is None else weights, dtype=torch.double)
    weight = tree_weights.repeat_interleave(roots.diff(prepend=torch.tensor([-1])))  # a tree's root is its last node
    return Forest(rule, left, right, height, symbol, weight, roots, binary, unary, lexical)


def _read(tree: str, builder: _Builder) -> int:
    """Add one tree; returns its root. Not recursive, since trees can be arbitrarily deep."""
    stack: list[tuple[str, list[int]]] = []
    tokens, n_words = iter(TOKEN.findall(tree)), 0
    for opened, close, word in tokens:
        if not close and not word:
            stack.append((opened, []))
            continue
        label, children = stack.pop() if stack else ("", [])
        if bool(word) == bool(children):  # a word beside others, a bracket without any, or no bracket at all
            break
        if word:
            if not next(tokens, ("", "", ""))[1]:  # the end of its bracket
                break
            done = builder.word(label, word, n_words)
            n_words += 1
        else:
            outermost = not stack and label == TOP and len(children) == 1
            done = children[0] if outermost else builder.bracket(label, children)
        if stack:
            stack[-1][1].append(done)
        elif next(tokens, None) is None:
            return done
        else:
            break
    raise DataError(f"not a tree in brackets: {tree[:60]!r}; is this a task whose outputs are trees?")


def written(nodes: list[tuple[str, int, int]], words: list[str], root: int) -> str:
    """The bracketing of a binarised tree: nodes (symbol, left, right), or (tag, -1, position) for words."""
    parts: list[str] = []
    stack: list[int | str] = [root]
    n_top = nodes[root][0].split(CHAIN)[0] != TOP
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        symbol, left, right = nodes[item]
        if left < 0:
            parts.append(f" ({symbol} {words[right]})")
            continue
        labels = [] if symbol.startswith(BETWEEN) else symbol.split(CHAIN)
        parts.extend(f" ({label}" for label in labels)
        stack.extend([")"] * len(labels))
        stack.extend([left] if right < 0 else [right, left])
    text = "".join(parts).strip()
    return f"({TOP} {text})" if n_top else text
