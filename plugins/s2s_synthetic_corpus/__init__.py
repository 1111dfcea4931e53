"""A synthetic corpus, as a plugin: English sentences from a grammar, with their German translations and their trees."""

from __future__ import annotations

__all__ = ["SyntheticConfig", "s2s_register"]

from dataclasses import dataclass
from typing import Literal

from s2s import Choice, Registry, hookimpl
from s2s.config.ranges import at_least, refuse_outside

Field = Literal["en", "de", "tree"]


@dataclass(kw_only=True)
class SyntheticConfig(Choice):
    """Sentences of a grammar; the source sentence itself determines its split."""

    src: Field = "en"
    """Source: en, de, or the tree of the English sentence in brackets."""
    tgt: Field = "de"
    """Target, in the same forms."""
    pairs: int = 20_000
    """Training examples."""
    held_out: int = 1000
    """Examples of each development and test set."""
    seed: int = 1
    """Another seed gives other sentences."""

    def __post_init__(self) -> None:
        refuse_outside("", self, pairs=at_least(1), held_out=at_least(1))


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The corpus, under its name."""
    registry.corpus("synthetic", SyntheticConfig, "s2s_synthetic_corpus.corpus:SyntheticCorpus")
