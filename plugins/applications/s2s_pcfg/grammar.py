"""A probabilistic context-free grammar whose symbols are annotated with latent substates (Matsuzaki et al., 2005).

Shapes: X symbols, K maximum number of substates of a symbol, R binary rules, U unary rules, L pairs of tag and word
class. Every array has room for K substates; those that a symbol does not have are zero.
"""

from __future__ import annotations

__all__ = ["Grammar", "normalised", "smoothed"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from s2s_pcfg.grammar_file import read_arrays, write_arrays
from s2s_pcfg.treebank import Symbols

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from s2s_pcfg.treebank import Forest

ARRAYS = ("n_substates", "binary", "unary", "lexical", "p_root", "p_binary", "p_unary", "p_lexical")


@dataclass(frozen=True)
class Grammar:
    """Rules and their probabilities, in float64."""

    symbols: Symbols
    words: Symbols
    """Word classes"""
    n_substates: Tensor
    """[X]"""
    binary: Tensor
    """[R, 3], X -> Y Z"""
    unary: Tensor
    """[U, 2], X -> Y"""
    lexical: Tensor
    """[L, 2], tag -> word class"""
    p_root: Tensor
    """[X, K], sums to 1"""
    p_binary: Tensor
    """[R, K, K, K]; for each substate of X, these and the next two sum to 1"""
    p_unary: Tensor
    """[U, K, K]"""
    p_lexical: Tensor
    """[L, K]"""

    @classmethod
    def of_treebank(cls, forest: Forest, symbols: Symbols, words: Symbols) -> Grammar:
        """One substate per symbol, and equal probabilities: one iteration of EM gives the relative frequencies."""
        ones = [
            torch.ones(n, *[1] * k, dtype=torch.double)
            for n, k in zip(
                (len(symbols), len(forest.binary), len(forest.unary), len(forest.lexical)), (1, 3, 2, 1), strict=True
            )
        ]
        one_each = torch.ones(len(symbols), dtype=torch.long)
        grammar = cls(symbols, words, one_each, forest.binary, forest.unary, forest.lexical, *ones)
        return normalised(grammar)

    @property
    def k(self) -> int:
        """The maximum number of substates of a symbol."""
        return self.p_root.size(1)

    @property
    def real(self) -> Tensor:
        """[X, K], True where a symbol has a substate."""
        return torch.arange(self.k) < self.n_substates[:, None]

    def save(self, path: Path, more: dict[str, NDArray[Any]]) -> None:
        """Write the grammar, and the other arrays of `grammar_file.SHAPES`."""
        arrays = {name: getattr(self, name).numpy() for name in ARRAYS}
        names = {"symbols": np.array(self.symbols.names), "words": np.array(self.words.names)}
        write_arrays(path, {**arrays, **names, **more})

    @classmethod
    def load(cls, path: Path) -> tuple[Grammar, dict[str, NDArray[Any]]]:
        """The grammar of a file, and the other arrays saved with it; raises DataError if it is not a grammar."""
        arrays = read_arrays(path)
        symbols, words = (Symbols(arrays.pop(name).tolist()) for name in ("symbols", "words"))
        return cls(symbols, words, **{name: torch.from_numpy(arrays.pop(name)) for name in ARRAYS}), arrays


def normalised(counts: Grammar) -> Grammar:
    """Relative frequencies: the rules of each substate sum to 1, and those of the root."""
    total = torch.zeros_like(counts.p_root)
    total.index_add_(0, counts.binary[:, 0], counts.p_binary.sum((2, 3)))
    total.index_add_(0, counts.unary[:, 0], counts.p_unary.sum(2))
    total.index_add_(0, counts.lexical[:, 0], counts.p_lexical)
    total = total.clamp(min=1e-300)
    return replace(
        counts,
        p_root=counts.p_root / counts.p_root.sum(),
        p_binary=counts.p_binary / total[counts.binary[:, 0], :, None, None],
        p_unary=counts.p_unary / total[counts.unary[:, 0], :, None],
        p_lexical=counts.p_lexical / total[counts.lexical[:, 0]],
    )


def smoothed(grammar: Grammar, share: float, lexical_share: float) -> Grammar:
    """Each substate's rules, interpolated with the mean of its symbol's (Petrov et al., 2006, section 2.3)."""
    real, n = grammar.real.double(), grammar.n_substates.double()

    def towards_mean(p: Tensor, upper: Tensor, share: float) -> Tensor:
        """p [rules, K, …]"""
        flat = p.flatten(2) if p.dim() > 2 else p[..., None]  # [rules, K, …]
        mean = flat.sum(1, keepdim=True) / n[upper][:, None, None]
        return ((1 - share) * flat + share * mean * real[upper][..., None]).view_as(p)

    return replace(
        grammar,
        p_binary=towards_mean(grammar.p_binary, grammar.binary[:, 0], share),
        p_unary=towards_mean(grammar.p_unary, grammar.unary[:, 0], share),
        p_lexical=towards_mean(grammar.p_lexical, grammar.lexical[:, 0], lexical_share),
    )
