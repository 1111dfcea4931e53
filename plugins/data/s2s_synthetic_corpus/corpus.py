"""The generated pairs as a corpus."""

from __future__ import annotations

__all__ = ["SyntheticCorpus"]

import hashlib
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from s2s import Corpus, Example
from s2s_synthetic_corpus.generate import pair, split_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s_synthetic_corpus import SyntheticConfig

N_SAMPLE = 100
"""Number of training examples whose hash identifies the grammar"""


class SyntheticCorpus(Corpus):
    """Examples of two of the fields of `Parallel`."""

    def __init__(self, config: SyntheticConfig) -> None:
        self.config = config
        self.held_out: dict[str, list[Example]] = {}
        """Cached, since they are read at every validation"""

    def examples(self, split: str) -> Iterator[Example]:
        """The first examples of the split."""
        if split == "train":
            yield from islice(self._generate(split), self.config.pairs)
            return
        if split not in self.held_out:
            self.held_out[split] = list(islice(self._generate(split), self.config.held_out))
        yield from self.held_out[split]

    def settings(self) -> dict[str, Any]:
        """The size, and a hash that changes with the seed, the direction and the grammar."""
        examples = islice(self._generate("train"), N_SAMPLE)
        spelt = ", ".join(
            f"Example(src={one.src!r}, tgt={one.tgt!r})" for one in examples
        )  # by which folders are named
        return {"pairs": self.config.pairs, "sample": hashlib.sha256(f"[{spelt}]".encode()).hexdigest()}

    def _generate(self, split: str) -> Iterator[Example]:
        """All examples of a split; a pair's split is that of its source sentence."""
        src, tgt = self.config.src, self.config.tgt
        for index in count():
            made = pair(self.config.seed, index)
            if split_of(made.de if src == "de" else made.en) == split:
                yield Example(getattr(made, src), getattr(made, tgt))
