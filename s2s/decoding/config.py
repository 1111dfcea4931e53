"""Options of the searches in the core. No torch at import."""

from __future__ import annotations

__all__ = ["BeamConfig", "BiasConfig", "GreedyConfig", "SearchConfig", "ShortlistConfig"]

from dataclasses import dataclass, field
from typing import Literal

from s2s.config.marks import Mark
from s2s.config.ranges import Range, above, at_least, check_ranges
from s2s.errors import ConfigError
from s2s.registry import Choice


@dataclass(kw_only=True)
class SearchConfig(Choice):
    """Options of every search: a limit on the length of outputs."""

    max_len_a: float = 1.0
    """Maximum output length, in tokens without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a; parsing takes 300 (section 6.3)."""
    ban_unk: bool = False
    """Never generate the unknown token."""
    repetition_penalty: float = field(default=1.0, metadata=Mark.ADDED)
    """Above 1: tokens that the output already has are less probable. Positive logits are divided by it, negative ones
    multiplied (Keskar et al., 2019), and the starting tokens count. Log-probabilities are then those of the changed
    distribution."""
    min_len: int = field(default=0, metadata=Mark.ADDED)
    """Minimum length of an output in tokens, without eos, if its length limit allows as many."""
    no_repeat_ngram_size: int = field(default=0, metadata=Mark.ADDED)
    """No n-gram of this many tokens occurs twice in the last 512 tokens of an output; 0: no limit."""

    def __post_init__(self) -> None:
        check_ranges("search", self, max_len_a=at_least(0, 1000), max_len_b=at_least(0, 1_000_000))
        check_ranges("search", self, repetition_penalty=above(0))
        check_ranges("search", self, min_len=at_least(0), no_repeat_ngram_size=at_least(0, 512))
        if not self.max_len_a and not self.max_len_b:
            raise ConfigError(
                "search.max_len_a=0 search.max_len_b=0: one must be positive, or no output could have a token"
            )


@dataclass(kw_only=True)
class BeamConfig(SearchConfig):
    """Beam search as in section 6.1."""

    beam: int = 4
    """Unfinished hypotheses kept at each step."""
    alpha: float = 0.6
    """Exponent of the length penalty; 0 ranks by log-probability alone."""
    length_penalty: Literal["gnmt", "power", "none"] = "gnmt"
    """Divisor of the log-probability. gnmt: ((5 + |Y|) / 6) ** alpha. power: |Y| ** alpha, as in many other toolkits.
    none: 1, for any alpha. |Y| counts eos."""
    length_offset: int = field(default=0, metadata=Mark.ADDED)
    """Added to |Y|, such as 1 for models whose publishers count a language's code that begins outputs."""
    stop: Literal["best", "exact", "first_k", "heuristic"] = "best"
    """When the search of a sentence ends. best: when no unfinished hypothesis can reach the score of the nbest-th
    finished one, the rule of the released code's later versions. exact: when none can reach that of the worst of the
    `beam` best finished ones; the outputs are the same, but take longer (with groups they differ, since finished
    hypotheses carry no diversity penalty). first_k: when `beam` hypotheses have finished, even if a better one may
    follow. heuristic: when none has, at its present length, a better score than the worst of the `beam` best finished
    ones, as in transformers. With the last two rules a hypothesis ends only among the `beam` best candidates of its
    step."""
    penalized: Literal["logits", "log_probs"] = field(default="logits", metadata=Mark.ADDED)
    """What repetition_penalty changes. log_probs: log-probabilities, which are then summed up as they are, as in beam
    search of transformers."""
    renormalize: bool = field(default=False, metadata=Mark.ADDED)
    """Whether the probabilities of tokens that may not come next are divided among the others."""
    temperature: float = field(default=1.0, metadata=Mark.ADDED)
    """Logits are divided by it; below 1 the distribution is sharper. Log-probabilities are those of the changed
    distribution."""

    def __post_init__(self) -> None:
        check_ranges("search", self, beam=at_least(1, 10_000), alpha=at_least(-10, 10), temperature=above(0))
        check_ranges("search", self, length_offset=at_least(0, 1000))
        super().__post_init__()


@dataclass(kw_only=True)
class GreedyConfig(SearchConfig):
    """The most probable token at every step."""


@dataclass(kw_only=True)
class BiasConfig(Choice):
    """Adds a number to the logits of some tokens."""

    texts: list[str] = field(default_factory=list)
    """Texts whose tokens, as the task encodes outputs, are meant."""
    bias: float = 0.0
    """Added to their logits; below 0 they become less probable."""

    def __post_init__(self) -> None:
        check_ranges("transforms", self, bias=Range(-1e4, 1e4))
        if not self.texts:
            raise ConfigError("transforms: bias needs texts, such as {name: bias, texts: [cat], bias: -2}")


@dataclass(kw_only=True)
class ShortlistConfig(Choice):
    """Outputs consist of the tokens of a file's lines alone, among which the probability is divided."""

    file: str = ""
    """Lines of text, which the task encodes as outputs."""

    def __post_init__(self) -> None:
        if not self.file:
            raise ConfigError("transforms: shortlist needs a file, such as {name: shortlist, file: target.txt}")
