"""Searches that a configuration can name, and the contract between a search and those who call it.

A search knows a model only as `Seq2Seq.encode`, `start` and `step`, and its state only as `State.reorder` and
`State.keep`: every architecture has every search.
"""

from __future__ import annotations

__all__ = [
    "PENALTIES",
    "BeamConfig",
    "BeamSearch",
    "Found",
    "GreedyConfig",
    "Hypothesis",
    "SampleConfig",
    "Search",
    "StreamingSearch",
    "build_constraint",
    "greedy",
    "max_output_length",
    "s2s_register",
]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from s2s.config.ranges import Range, above, at_least, refuse_outside
from s2s.errors import ConfigError
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor

    from s2s.decoding.beam_search import BeamSearch, greedy
    from s2s.decoding.constraints import build_constraint
    from s2s.decoding.limits import max_output_length
    from s2s.decoding.penalties import PENALTIES
    from s2s.decoding.queue import Queue
    from s2s.model import Seq2Seq
    from s2s.task import Constraint, Vocab


@dataclass(frozen=True)
class Hypothesis:
    """One finished output."""

    tokens: list[int]
    """Symbols, without bos and eos"""
    score: float
    """What outputs are ranked by: the log-probability over the length penalty"""
    log_prob: float
    """log p(tokens, eos | src) under the model, or the mean of several; fused with a language model, the sum that
    search maximises, which is no probability's logarithm"""
    token_log_probs: list[float]
    """Its terms: one for each symbol, and the last for eos"""
    sources: list[int] | None = None
    """For each symbol the source symbol, eos apart, that it looks at most; None where nobody asked"""


class Found(NamedTuple):
    """What a search found for one sentence."""

    place: int
    """Its number among the sources"""
    hypotheses: list[Hypothesis]
    """Best first"""


class Search(Protocol):
    """Finds outputs of high probability."""

    def __call__(
        self,
        model: Seq2Seq,
        src: Tensor,
        pad: Tensor,
        vocab: Vocab,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> list[list[Hypothesis]]:
        """At most `nbest` outputs for each source, best first: src ids, each ending in eos, and pad [B, S].

        A sentence gets fewer when its space holds no more, and none when nothing that `constraint` allows
        ends within the length limit.
        """
        ...


@runtime_checkable
class StreamingSearch(Search, Protocol):
    """A search that lets sentences in as others leave."""

    def stream(
        self,
        model: Seq2Seq,
        queue: Queue,
        vocab: Vocab,
        device: torch.device,
        constraint: Constraint | None = None,
        nbest: int = 1,
    ) -> Iterator[list[Found]]:
        """The same outputs, each as soon as it is there."""
        ...


@dataclass(kw_only=True)
class BeamConfig(Choice):
    """Beam search as in section 6.1."""

    beam: int = 4
    """Unfinished outputs that are followed at once."""
    alpha: float = 0.6
    """Exponent of the length penalty; 0 ranks by log-probability alone."""
    length_penalty: Literal["gnmt", "power", "none"] = "gnmt"
    """What the log-probability is divided by: gnmt: ((5 + |Y|) / 6) ** alpha. power: |Y| ** alpha, as in many
    other toolkits. none: 1, whatever alpha says. |Y| counts eos."""
    stop: Literal["exact", "best", "first_k"] = "exact"
    """When a sentence is done. exact: the worst of the `beam` best that have ended is no worse than what an
    unfinished one could still reach. best: so is the last that is asked for, the one best or the n-th, which is
    the looser rule of the released code's later versions: the same outputs, sooner. first_k: `beam` outputs have
    ended, whatever the others could still reach."""
    max_len_a: float = 1.0
    """Longest output, in symbols without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a; parsing takes 300 (section 6.3)."""
    ban_unk: bool = False
    """Never write the unknown symbol."""
    num_beam_groups: int = 1
    """Diverse beam search: the beam is divided into this many groups of equal size, which choose one after another in
    each step (Vijayakumar et al., 2018)."""
    diversity_penalty: float = 0.5
    """With groups, what a candidate loses for each hypothesis of an earlier group that chose the same token in this
    step; the scores of outputs stay those of the model."""

    def __post_init__(self) -> None:
        refuse_outside("search", self, beam=at_least(1, 10_000), alpha=Range())
        refuse_outside("search", self, num_beam_groups=at_least(1), diversity_penalty=at_least(0))
        _check_limit(self)
        if self.beam % self.num_beam_groups:
            raise ConfigError(
                f"search.beam={self.beam} must be a multiple of search.num_beam_groups={self.num_beam_groups}"
            )

    @property
    def width(self) -> int:
        """Hypotheses of a group."""
        return self.beam // self.num_beam_groups


@dataclass(kw_only=True)
class GreedyConfig(Choice):
    """The most probable symbol at every step."""

    max_len_a: float = 1.0
    """Longest output, in symbols without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a."""
    ban_unk: bool = False
    """Never write the unknown symbol."""

    def __post_init__(self) -> None:
        _check_limit(self)


@dataclass(kw_only=True)
class SampleConfig(Choice):
    """Outputs drawn at random; nbest=n draws n of each sentence, independently.

    What chance says depends on the seed, the source and the sample's number alone: not on other sentences.
    """

    temperature: float = 1.0
    """Log-probabilities are divided by it before drawing; below 1 the probable becomes more so."""
    top_k: int = 0
    """Draw from the so many most probable symbols; 0: from all."""
    top_p: float = 1.0
    """Draw from the fewest symbols whose probabilities, after temperature and top_k, sum to this."""
    seed: int = 1
    """Another seed, other outputs."""
    max_len_a: float = 1.0
    """Longest output, in symbols without eos: max_len_a * length of its own source + max_len_b."""
    max_len_b: int = 50
    """See max_len_a."""
    ban_unk: bool = False
    """Never write the unknown symbol."""

    def __post_init__(self) -> None:
        shares = Range(0, 1, without_low=True)
        refuse_outside("search", self, temperature=above(0), top_k=at_least(0), top_p=shares)
        refuse_outside("search", self, seed=at_least(0, 2**63 - 1))
        _check_limit(self)


def _check_limit(config: BeamConfig | GreedyConfig | SampleConfig) -> None:
    refuse_outside("search", config, max_len_a=at_least(0, 1000), max_len_b=at_least(0, 1_000_000))
    if not config.max_len_a and not config.max_len_b:
        raise ConfigError("search.max_len_a=0 search.max_len_b=0: not both, or no output could hold a symbol")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.search("beam", BeamConfig, "s2s.decoding.beam_search:BeamSearch")
    registry.search("greedy", GreedyConfig, "s2s.decoding.beam_search:greedy")
    registry.search("sample", SampleConfig, "s2s.decoding.sampling:Sampler")


__getattr__ = lazy_names(__name__, "penalties", "limits", "constraints", "beam_search")
