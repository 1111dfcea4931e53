"""Options of the searches in the core. No torch at import."""

from __future__ import annotations

__all__ = ["BeamConfig", "GreedyConfig", "SearchConfig"]

from dataclasses import dataclass
from typing import Literal

from s2s.config.ranges import at_least, check_ranges
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

    def __post_init__(self) -> None:
        check_ranges("search", self, max_len_a=at_least(0, 1000), max_len_b=at_least(0, 1_000_000))
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
    stop: Literal["best", "exact", "first_k"] = "best"
    """When the search of a sentence ends. best: when no unfinished hypothesis can reach the score of the nbest-th
    finished one, the rule of the released code's later versions. exact: when none can reach that of the worst of the
    `beam` best finished ones; the outputs are the same, but take longer (with groups they differ, since finished
    hypotheses carry no diversity penalty). first_k: when `beam` hypotheses have finished, even if a better one may
    follow."""

    def __post_init__(self) -> None:
        check_ranges("search", self, beam=at_least(1, 10_000), alpha=at_least(-10, 10))
        super().__post_init__()


@dataclass(kw_only=True)
class GreedyConfig(SearchConfig):
    """The most probable token at every step."""
