"""Options of the searches in the core. No torch at import."""

from __future__ import annotations

__all__ = ["BeamConfig", "BiasConfig", "GreedyConfig", "SampleConfig", "SearchConfig", "ShortlistConfig"]

from array import array
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, NamedTuple

from s2s.config.marks import Mark
from s2s.config.ranges import Range, above, at_least, check_ranges
from s2s.errors import ConfigError, DataError
from s2s.registry import Choice

if TYPE_CHECKING:
    from s2s.vocab import Vocab


class Affine(NamedTuple):
    """A change of logits to logits * scale + bias, both fp32 [V]."""

    scale: array[float]
    bias: array[float]


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

    @property
    def penalizes_log_probs(self) -> bool:
        """Whether `repetition_penalty` changes log-probabilities in place of logits."""
        return False

    @property
    def sums_changed_log_probs(self) -> bool:
        """Whether these are then not normalised again."""
        return self.penalizes_log_probs and self.repetition_penalty != 1

    def check_nbest(self, nbest: int) -> None:
        """Raise ConfigError for more outputs of a sentence than the search finds."""

    def banned(self, vocab: Vocab) -> list[int]:
        """Tokens that no output contains."""
        return [*vocab.never_output, *([vocab.unk] if self.ban_unk else [])]

    def max_output_length(self, n_source: int, max_len: int | None, n_start: int = 1) -> int:
        """Maximum length of an output, from the length of its own source; both without eos.

        max_len: tokens that the model takes; None: any number. n_start: starting tokens, which are no part of the
        output, but of what the model takes; raises DataError if they leave no room in it.
        """
        limit = max(1, int(self.max_len_a * n_source) + self.max_len_b)
        if not max_len:
            return limit
        if n_start >= max_len:
            raise DataError(f"{n_start} starting tokens leave no room in a model that takes {max_len} tokens")
        return min(limit, max_len - n_start)


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

    @property
    def penalizes_log_probs(self) -> bool:
        """See `penalized`."""
        return self.penalized == "log_probs"

    @property
    def sums_changed_log_probs(self) -> bool:
        """Unless `renormalize` is set."""
        return super().sums_changed_log_probs and not self.renormalize

    def check_nbest(self, nbest: int) -> None:
        """Raise ConfigError for more outputs of a sentence than the beam holds."""
        if not 1 <= nbest <= self.beam:
            raise ConfigError(
                f"nbest={nbest} must lie between 1 and the beam, which is {self.beam}; "
                f"give search.beam={max(nbest, 1)}, after search=beam if the search is greedy"
            )

    def penalty(self, length: float) -> float:
        """What the log-probability of an output of `length` tokens, at least 1 with eos, is divided by.

        gnmt: Wu et al. (2016), eq. 14.
        """
        counted = length + self.length_offset
        if self.length_penalty == "none":
            return 1.0
        return float((5 + counted) / 6 if self.length_penalty == "gnmt" else counted) ** self.alpha

    def penalties(self, n: int) -> array[float]:
        """Those of outputs of 0 to n - 1 tokens in fp32, rounded from fp64; 0, which no output has, is as 1."""
        return array("f", [self.penalty(max(length, 1)) for length in range(n)])

    def affine(self, vocab: Vocab) -> Affine | None:
        """The change of logits by `temperature` and `renormalize`, if there is any."""
        if self.temperature == 1 and not self.renormalize:
            return None
        scale, bias = (array("f", [x]) * vocab.tgt for x in (1 / self.temperature, 0.0))
        for token in self.banned(vocab) if self.renormalize else ():
            bias[token] = float("-inf")
        return Affine(scale, bias)


@dataclass(kw_only=True)
class GreedyConfig(SearchConfig):
    """The most probable token at every step."""

    def as_beam(self) -> BeamConfig:
        """A beam of one that stops at the first eos."""
        options = {option.name: getattr(self, option.name) for option in fields(self)}
        return BeamConfig(beam=1, alpha=0.0, stop="first_k", **options)


@dataclass(kw_only=True)
class SampleConfig(SearchConfig):
    """Outputs drawn at random; nbest=n draws n for each sentence, independently.

    The random numbers depend only on the seed, the source and the sample's number, not on other sentences.
    """

    temperature: float = 1.0
    """Log-probabilities are divided by it before drawing; below 1 the distribution is sharper."""
    top_k: int = 0
    """Draw only from the k most probable tokens; 0: from all."""
    top_p: float = 1.0
    """Draw from the fewest tokens whose probabilities, after temperature and top_k, sum to this."""
    seed: int = 1
    """Seed of the random numbers."""

    def __post_init__(self) -> None:
        shares = Range(0, 1, without_low=True)
        check_ranges("search", self, temperature=above(0), top_k=at_least(0, 2**63 - 1), top_p=shares)
        check_ranges("search", self, seed=at_least(0, 2**63 - 1))
        super().__post_init__()


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
