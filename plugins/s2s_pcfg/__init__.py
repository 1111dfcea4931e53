"""A grammar parser: PCFGs with latent annotations (Petrov et al., 2006), the command s2s-pcfg. No torch at import."""

from __future__ import annotations

__all__ = ["ParseConfig", "TrainConfig"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice
from s2s.config import SHARE, at_least, refuse_outside


@dataclass(kw_only=True)
class TrainConfig:
    """s2s-pcfg train: learn a grammar from the training trees of a task.

    s2s-pcfg train task.train=train.mrg output=grammar.npz
    s2s-pcfg train task.treebank=WSJ leaves=tags splits=6
    """

    task: Choice = field(default_factory=lambda: Choice(name="parsing"))
    """The task whose training trees are read and cleaned: any whose outputs are trees in brackets."""
    output: str = "grammar.npz"
    """File for the grammar."""
    leaves: Literal["words", "tags"] = "words"
    """words: as in the sentences, rare ones by their shape. tags: parts of speech, which must then be given."""
    splits: int = 4
    """Times that every substate is split in two; the paper has 6, for 40,000 trees."""
    iterations: int = 20
    """Of EM after each split; half as many after each merge."""
    merge: float = 0.5
    """Share of the splits that are undone."""
    smoothing: float = 0.01
    """Share of a substate's rules that is the mean of its symbol's."""
    lexical_smoothing: float = 0.1
    """The same for words."""
    rare: int = 1
    """Words that occur so often or less are known by their shape alone."""
    noise: float = 0.1
    """Largest relative change of a rule after a split. The paper has 0.01, from which EM takes longer to find a
    difference between the two halves."""
    seed: int = 1
    """Seed of the noise that tells the halves of a split apart."""
    plugins: list[str] = field(default_factory=list)
    """Files or modules of plugins of your own."""

    def __post_init__(self) -> None:
        refuse_outside("", self, splits=at_least(0), iterations=at_least(1), rare=at_least(0))
        refuse_outside("", self, merge=SHARE, smoothing=SHARE, lexical_smoothing=SHARE, noise=SHARE)


@dataclass(kw_only=True)
class ParseConfig:
    """s2s-pcfg parse: parse sentences, one a line, into trees in brackets.

    s2s-pcfg parse grammar=grammar.npz input=sentences.txt output=trees.mrg
    """

    grammar: str = "grammar.npz"
    """A grammar of s2s-pcfg train."""
    input: str = "-"
    """File of sentences, words separated by blanks; for a grammar of tags, each word as word/TAG. -: standard input."""
    output: str = "-"
    """File for the trees. -: standard output."""
    threshold: float = 1e-5
    """Least posterior in the coarse chart that the refined grammar looks at."""
    plugins: list[str] = field(default_factory=list)
    """Files or modules of plugins of your own."""

    def __post_init__(self) -> None:
        refuse_outside("", self, threshold=SHARE)
