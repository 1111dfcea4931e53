"""Parsing of words into trees with a saved grammar, coarse to fine."""

from __future__ import annotations

__all__ = ["Parser", "save_parser"]

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from s2s_pcfg.coarse import CoarseChart, CoarseGrammar
from s2s_pcfg.fine import best_tree
from s2s_pcfg.grammar import Grammar
from s2s_pcfg.treebank import CHAIN, written
from s2s_pcfg.words import WordClasses

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCALE = 1000.0
"""Each word's emissions are scaled to this sum, so that chart values of long sentences stay in float64's range: the
rules above a word contribute a factor of about 1e-3"""


def save_parser(path: Path, grammar: Grammar, coarse: Grammar, classes: WordClasses | None) -> None:
    """Save the refined grammar, the treebank grammar, and the known words; classes=None: tags are given as words."""
    more = {f"coarse_{name}": getattr(coarse, name).flatten().numpy() for name in ("p_root", "p_binary", "p_unary")}
    more["coarse_p_lexical"] = coarse.p_lexical[:, 0].numpy()
    more["known"] = np.array(sorted(classes.known) if classes else [], dtype=np.str_)
    more["by_tags"] = np.array(classes is None)
    grammar.save(path, more)


class Parser:
    """Parses sentences one after another."""

    def __init__(self, path: Path, threshold: float) -> None:
        """threshold: minimum posterior in the coarse chart for an item to be kept"""
        self.grammar, more = Grammar.load(path)
        self.threshold = threshold
        tensors = [torch.from_numpy(more[f"coarse_{name}"]) for name in ("p_root", "p_binary", "p_unary")]
        self.coarse = CoarseGrammar.of(self.grammar.binary, self.grammar.unary, tuple(tensors))  # type: ignore[arg-type]
        self.coarse_lexical = torch.from_numpy(more["coarse_p_lexical"])
        self.classes = None if more["by_tags"] else WordClasses(more["known"].tolist())
        self.n_failed = 0
        rare = [i for i, name in enumerate(self.grammar.words.names) if name.startswith("UNK")]
        self._rare = torch.isin(self.grammar.lexical[:, 1], torch.tensor(rare, dtype=torch.long))

    def parse(self, words: Sequence[str], tags: Sequence[str] | None = None) -> str:
        """The bracketed tree on one line; a grammar of tags parses `tags`, with `words` as the leaves of the tree."""
        leaves = list(words)
        fine, coarse = self._emissions(list(tags) if tags is not None else leaves)
        chart = CoarseChart(self.coarse, coarse)
        tree = None
        if chart.likelihood > 0:
            tree = best_tree(self.grammar, fine, *(p > self.threshold for p in chart.posteriors()))
        if tree is None:
            self.n_failed += 1
            return self._flat(leaves, coarse)
        return written(tree[0], leaves, tree[1])

    def _emissions(self, words: list[str]) -> tuple[Tensor, Tensor]:
        """[n, X, K] of the refined grammar and [n, X] of the coarse one."""
        grammar = self.grammar
        fine = torch.zeros(len(words), *grammar.p_root.shape, dtype=torch.double)
        coarse = torch.zeros(len(words), len(grammar.symbols), dtype=torch.double)
        for i, word in enumerate(words):
            name = word if self.classes is None else self.classes(word, i)
            known = grammar.words.ids.get(name, -1)
            rows = grammar.lexical[:, 1] == known
            if known < 0:  # a signature or tag unseen in training: any open class
                rows = self._rare if self.classes is not None else torch.ones_like(rows)
            tags = grammar.lexical[rows, 0]
            fine[i].index_add_(0, tags, grammar.p_lexical[rows])
            coarse[i].index_add_(0, tags, self.coarse_lexical[rows])
        factor = SCALE / coarse.sum(1, keepdim=True)
        return fine * factor[..., None], coarse * factor

    def _flat(self, words: list[str], emissions: Tensor) -> str:
        """All words in one bracket, for a sentence without a parse."""
        names = self.grammar.symbols.names
        label = names[int(self.coarse.root.argmax())].partition(CHAIN)[0]
        inner = " ".join(f"({names[int(e.argmax())]} {w})" for w, e in zip(words, emissions, strict=True))
        return f"(TOP ({label} {inner}))"
