"""Training runs that others have recorded: the BLEU of Transformers of various sizes on a corpus.

The folder `datasets` of https://github.com/Este1le/hpo_nmt (MIT licence) has CORPUS.hyps and CORPUS.evals for six
corpora (Zhang and Duh, 2020, "Reproducible and Efficient Benchmarks for Hyperparameter Optimization of Neural Machine
Translation Systems", TACL 8). A row of hyps: BPE merges of each side, layers of the encoder and of the decoder,
d_model, d_ff, heads, initial learning rate. Of a row of evals only the first column is read: BLEU on the development
set.
"""

from __future__ import annotations

from math import log2
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class Size(NamedTuple):
    """The options that a recorded run and a plan have in common."""

    vocab: float
    """Vocabulary size of each side"""
    n_layers: float
    d_model: float
    d_ff: float
    n_heads: float


class Table:
    """The recorded runs on one corpus."""

    def __init__(self, runs: Iterable[tuple[Size, float, float]]) -> None:
        """runs: size, learning rate, BLEU"""
        self.runs: dict[Size, dict[float, float]] = {}
        for size, rate, bleu in runs:
            self.runs.setdefault(size, {})[rate] = bleu
        self.sizes = {size: max(by_rate.values()) for size, by_rate in self.runs.items()}
        self.bleu = [bleu for by_rate in self.runs.values() for bleu in by_rate.values()]
        self.best = max(self.bleu)

    def of(self, size: Size, rate: float = 0.0) -> float:
        """Mean BLEU of the recorded sizes nearest to this one, at the learning rate nearest to this one."""
        return fmean(self._with(self.runs[close], rate) for close in nearest(self.sizes, size))

    @staticmethod
    def _with(by_rate: Mapping[float, float], rate: float) -> float:
        if not rate:
            return max(by_rate.values())
        return by_rate[min(by_rate, key=lambda r: abs(log2(r / rate)))]

    def beaten(self, bleu: float) -> float:
        """Share of all runs with a lower BLEU."""
        return fmean(other < bleu for other in self.bleu)


def read_table(folder: Path, corpus: str) -> Table:
    """Read the runs on a corpus. Raises ValueError if its two files do not match."""
    hyps, evals = ((folder / f"{corpus}.{kind}").read_text().splitlines() for kind in ("hyps", "evals"))
    if len(hyps) != len(evals):
        raise ValueError(f"{corpus}.hyps has {len(hyps)} lines, {corpus}.evals {len(evals)}: they must be of one table")
    options = [tuple(map(float, line.split())) for line in hyps]
    bleu = [float(line.split()[0]) for line in evals]
    return Table((Size(*of[:-1]), of[-1], score) for of, score in zip(options, bleu, strict=True))


def distance(a: Size, b: Size) -> float:
    """Sum over options of the absolute base-2 logarithm of their ratio."""
    return sum(abs(log2(x / y)) for x, y in zip(a, b, strict=True))


def nearest(sizes: Iterable[Size], size: Size) -> list[Size]:
    """The recorded sizes at the smallest distance; several on a tie."""
    distances = {other: round(distance(size, other), 9) for other in sizes}
    least = min(distances.values())
    return [other for other, far in distances.items() if far == least]
