"""Batches of real lengths for the training benchmark: pairs of a corpus in the subwords of a model trained on it."""

from __future__ import annotations

__all__ = ["CORPORA", "batches", "encoded", "of_length"]

import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from s2s.data.batching import Batches
from s2s.task import Example
from s2s_sentencepiece.subwords import Subwords
from s2s_sentencepiece.training import train_subwords
from s2s_synthetic_corpus.generate import pairs as synthetic_pairs
from s2s_text_corpora.parallel import read_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.data.pairs import Pair, Rows

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {
    "multi30k": [DATA / "multi30k" / "train.en", DATA / "multi30k" / "train.de.gz"],
    "newstest": [DATA / "wmt_newstest" / "en-de" / f"newstest2014.{side}" for side in ("en", "de")],
}
CORPORA = ("synthetic", *(name for name, files in FILES.items() if all(file.is_file() for file in files)))
"""Corpora that can be used"""
N_SYMBOLS = 8_000
LONGEST = 128


class InMemory:
    """Encoded pairs, with the interface that batching needs."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self.sizes = np.array([[len(src), len(tgt)] for src, tgt in pairs])

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, row: int) -> Pair:
        return self.pairs[row]

    def lengths(self, rows: Rows) -> tuple[Rows, Rows]:
        """Source and target lengths of rows [n], without eos."""
        return self.sizes[rows, 0], self.sizes[rows, 1]


def encoded(corpus: str, limit: int = 20_000) -> list[Pair]:
    """The first pairs of a corpus, as ids of 8,000 subwords trained on them."""
    found = list(islice((pair for pair in _examples(corpus, limit) if isinstance(pair, Example)), limit))
    src, tgt = [pair.src for pair in found], [pair.tgt for pair in found]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        train_subwords([*src, *tgt], model, "bpe", N_SYMBOLS)
        subwords = Subwords(model)
        pairs = zip(subwords.encode(src), subwords.encode(tgt), strict=True)
        return [pair for pair in pairs if min(map(len, pair)) > 0 and max(map(len, pair)) < LONGEST]


def of_length(n_tokens: int, n_pairs: int) -> list[Pair]:
    """Pairs of random ids, with `n_tokens` on each side, eos included."""
    ids = np.random.default_rng(1).integers(5, N_SYMBOLS, (n_pairs, 2, n_tokens - 1))
    return [(src.tolist(), tgt.tolist()) for src, tgt in ids]


def batches(pairs: Sequence[Pair], tokens: int, n: int) -> list[list[Pair]]:
    """The first `n` batches of at most `tokens` tokens per side, in the order of s2s-train."""
    order = Batches([(InMemory(pairs), 1.0)], tokens, seed=1)
    return [order.pairs(rows) for rows in islice(order.epoch(0), n)]


def _examples(corpus: str, limit: int) -> Iterator[object]:
    if corpus == "synthetic":
        return (Example(pair.en, pair.de) for pair in synthetic_pairs(1, limit))
    return iter(read_pairs(FILES[corpus]))
