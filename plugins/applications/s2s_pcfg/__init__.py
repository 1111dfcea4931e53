"""A grammar parser: PCFGs with latent annotations (Petrov et al., 2006), the command s2s-pcfg. No torch at import."""

from __future__ import annotations

__all__ = ["ParseConfig", "TrainConfig"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice
from s2s.config import SHARE, at_least, check_ranges


@dataclass(kw_only=True)
class TrainConfig:
    """s2s-pcfg train: train a grammar on the training trees of a task.

    s2s-pcfg train task.train=train.mrg output=grammar.npz
    s2s-pcfg train task.treebank=WSJ leaves=tags splits=6
    """

    task: Choice = field(default_factory=lambda: Choice(name="parsing"))
    """The task whose training trees are read and cleaned: any whose outputs are bracketed trees. Each tree counts as
    often as the weight of its corpus says."""
    output: str = "grammar.npz"
    """File for the grammar."""
    overwrite: bool = False
    """Replace what is there even if s2s did not write it, or it has been changed since."""
    leaves: Literal["words", "tags"] = "words"
    """words: as in the sentences, rare ones by their shape. tags: parts of speech, which must then be provided."""
    splits: int = 4
    """Number of times every substate is split in two; 6 in the paper, for 40,000 trees."""
    iterations: int = 20
    """Iterations of EM after each split; half as many after each merge."""
    merge: float = 0.5
    """Share of the splits that are merged again."""
    smoothing: float = 0.01
    """Weight of the mean over the symbol's substates when a substate's rule probabilities are smoothed."""
    lexical_smoothing: float = 0.1
    """The same for words."""
    rare: int = 1
    """Words with at most this many occurrences, whatever their weight, are represented by their shape only."""
    noise: float = 0.1
    """Largest relative change of a rule after a split. The paper has 0.01, with which EM takes longer to separate the
    two halves."""
    seed: int = 1
    """Seed of the noise that separates the halves of a split."""
    plugins: list[str] = field(default_factory=list)
    """Files or modules of plugins of your own."""

    def __post_init__(self) -> None:
        check_ranges("", self, splits=at_least(0), iterations=at_least(1), rare=at_least(0))
        check_ranges("", self, merge=SHARE, smoothing=SHARE, lexical_smoothing=SHARE, noise=SHARE)


@dataclass(kw_only=True)
class ParseConfig:
    """s2s-pcfg parse: parse sentences, one per line, into bracketed trees.

    s2s-pcfg parse grammar=grammar.npz input=sentences.txt output=trees.mrg
    """

    grammar: str = "grammar.npz"
    """A grammar written by s2s-pcfg train."""
    input: str = "-"
    """File of sentences, words separated by spaces; for a grammar of tags, each word as word/TAG. -: standard input."""
    output: str = "-"
    """File for the trees. -: standard output."""
    overwrite: bool = False
    """Replace what is there even if s2s did not write it, or it has been changed since."""
    threshold: float = 1e-5
    """Minimum posterior in the coarse chart for an item to be kept for the refined grammar."""
    plugins: list[str] = field(default_factory=list)
    """Files or modules of plugins of your own."""

    def __post_init__(self) -> None:
        check_ranges("", self, threshold=SHARE)
