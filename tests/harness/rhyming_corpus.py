"""A third party's corpus, as a local plugin: pairs and trees without a file, some of which cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import s2s
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

WORDS = ("cat", "hat", "mat", "bat", "rat", "sat")


@dataclass(kw_only=True)
class RhymingConfig(s2s.Choice):
    """Two words that rhyme."""

    n: int = 40
    """Examples of a split."""
    trees: bool = False
    """Targets are trees in brackets."""
    tree: str = "(TOP (NP-SBJ (NN {0}) (NN {1})))"
    """How a tree is written."""


class Rhyming(s2s.Corpus):
    def __init__(self, config: RhymingConfig) -> None:
        self.config = config

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        yield Rejected("no rhyme")
        for i in range(self.config.n):
            a, b = WORDS[i % 6], WORDS[(i // 6 + len(split)) % 6]
            yield Example(f"{a} {b}", self.config.tree.format(a, b) if self.config.trees else f"{b} {a}")

    def settings(self) -> dict[str, Any]:
        return {"n": self.config.n, "tree": self.config.tree if self.config.trees else ""}

    def describe(self) -> Iterable[str]:
        return [f"{self.config.n} rhymes"]


@s2s.hookimpl
def s2s_register(registry: s2s.Registry) -> None:
    registry.corpus("rhyming", RhymingConfig, Rhyming)
