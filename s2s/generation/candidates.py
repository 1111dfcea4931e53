"""Inputs and outputs of a generator, as text."""

from __future__ import annotations

__all__ = ["EMPTY_CANDIDATE", "NO_OUTPUT", "Candidate", "Counts", "Input", "Output"]

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from s2s.errors import DataError
from s2s.text import AnnotatedText, Span
from s2s.text.annotated import Link


@dataclass(frozen=True)
class Input:
    """One input: its text, and the requirements on its output; None for one of these means none.

    Raises DataError for values of other types.
    """

    src: str
    prefix: str = ""
    """Text with which the output must begin"""
    phrases: tuple[str, ...] = ()
    """Texts that the output must contain, each at least once, in any order"""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Fields that the task reads (`Task.fields`), such as the language of the output; others are refused"""
    spans: tuple[Span, ...] = ()
    """Inline elements of the text, which candidates have in `annotated`; see `s2s.text.AnnotatedText`"""
    record: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """All that a file or a corpus has beside the text, of which the task reads its fields"""

    def __post_init__(self) -> None:
        if not isinstance(self.src, str):
            raise DataError(f"an input is a text, or a mapping with its text as 'src', not {_shortened(self.src)}")
        if not isinstance(self.prefix, str):
            object.__setattr__(self, "prefix", _prefix(self.prefix))
        if not isinstance(self.phrases, tuple) or self.phrases:  # else as by default, and nothing needs a check
            object.__setattr__(self, "phrases", _phrases(self.phrases))
        for name in ("fields", "record"):
            value = getattr(self, name)
            if not isinstance(value, dict) or value:
                object.__setattr__(self, name, _mapping(name, value))


def _prefix(value: Any) -> str:
    if value is None:
        return ""
    raise DataError(f"'prefix' is the text with which the output begins, not {_shortened(value)}")


def _phrases(value: Any) -> tuple[str, ...]:
    """Those of a list, or of an array of one dimension; a text alone is refused: its letters would be the phrases."""
    phrases = () if value is None else value
    is_list = isinstance(phrases, Collection) and not isinstance(phrases, str | bytes | Mapping)
    is_list = is_list and getattr(phrases, "ndim", 1) == 1
    if not is_list or not all(isinstance(phrase, str) for phrase in phrases):
        raise DataError(f"'phrases' is a list of texts for the output, not {_shortened(value)}")
    return tuple(phrases)


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise DataError(f"'{name}' maps names to values, such as {{'language': 'de'}}, not {_shortened(value)}")
    return value


def _shortened(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}"


@dataclass(frozen=True)
class Candidate:
    """One possible output for an input."""

    hyp: str
    """Text"""
    score: float
    """The ranking criterion: by default the log-probability over the length penalty"""
    tokens: list[int]
    """Token ids, without bos and eos"""
    log_probs: list[float]
    """Of each token under the model, and finally of eos"""
    pieces: list[str] = field(default_factory=list)
    """Its tokens as text, if requested"""
    align: list[tuple[int, int]] = field(default_factory=list)
    """Aligned pairs of source word and output word numbers, if requested"""
    links: list[Link] = field(default_factory=list)
    """Source begin and end, output begin and end, in characters, of each token of the output and the source token that
    it attends to most; if requested, or needed for `annotated`"""
    annotated: AnnotatedText | None = None
    """The text with the inline elements of the input, if that has any"""
    finished: bool = True
    """False: the limit on the length (search.max_len_a, search.max_len_b) has cut it"""

    @property
    def markup(self) -> AnnotatedText:
        """Its text with the inline elements of the input."""
        return self.annotated or AnnotatedText(self.hyp)

    def pharaoh(self) -> list[str]:
        """The alignment in Pharaoh format: source word - word of the output, both from 0."""
        return [f"{source}-{target}" for source, target in self.align]


EMPTY_CANDIDATE = Candidate(hyp="", score=0.0, tokens=[], log_probs=[])
"""The candidate of an empty input, which is not searched"""
NO_OUTPUT = Candidate(hyp="", score=-math.inf, tokens=[], log_probs=[])
"""The candidate of an input for which the search found none, completed by the task's fallback text"""


@dataclass(frozen=True)
class Output:
    """The output of one input."""

    src: str
    nbest: list[Candidate]
    """Best first, with distinct texts; a single one of score -inf if the search found nothing. Of an input in several
    parts, the k-th joins the k-th best outputs of the parts, or the last where there are fewer: texts, tokens,
    log-probabilities and alignments in a row, the sum of the scores"""
    parts: list[Output] = field(default_factory=list)
    """The outputs of the sentences of an input that was split; else empty"""

    @classmethod
    def empty(cls, src: str) -> Output:
        """The output of an empty input, which is not searched."""
        return cls(src, [EMPTY_CANDIDATE])

    @property
    def best(self) -> Candidate:
        """The best candidate."""
        return self.nbest[0]

    @property
    def hyp(self) -> str:
        """Text of the best candidate."""
        return self.best.hyp

    @property
    def score(self) -> float:
        """Score of the best candidate."""
        return self.best.score

    @property
    def tokens(self) -> list[int]:
        """Ids of the best candidate."""
        return self.best.tokens

    @property
    def n_tokens(self) -> int:
        """Tokens of the best candidate, eos included; 0 if nothing was searched or found."""
        if (self.score == 0 and not self.tokens) or self.score == -math.inf:
            return 0
        return len(self.tokens) + 1  # not log_probs, which some backends do not give


LONG = 8
"""Tokens from which on an input says something about the length of its output"""
FEW = 20
"""Fewer outputs give no share to rely on"""
NOW_AND_THEN = 0.01
"""Share of outputs that may be empty or too short without a warning"""


@dataclass
class Counts:
    """What a generator has processed so far."""

    inputs: int = 0
    empty: int = 0
    """Inputs without a token, whose output is empty"""
    unknown: int = 0
    """Inputs with symbols that have no token; not counted where training makes rare words unknown (`Vocab.unknown`)"""
    split: int = 0
    """Inputs that were decoded in parts: sentence by sentence, or because they were too long"""
    longer: int = 0
    """Inputs with a segment that has more tokens than any source of the training text"""
    truncated: int = 0
    """Inputs with a segment that was truncated to the maximum length"""
    unanswered: int = 0
    """Segments for which the search found no output"""
    revised: int = 0
    """Segments that were searched again, since their outputs lacked something that is required"""
    lacking: int = 0
    """Those of them for which no other output was found"""
    unfinished: int = 0
    """Outputs that the limit on the length has cut"""
    blank: int = 0
    """Outputs without text of inputs with tokens"""
    short: int = 0
    """Translations, and outputs like them, with less than a quarter of the tokens of an input of LONG or more"""
    tokens: int = 0
    """Tokens of the best outputs, eos included"""

    def doubt(self, advice: str) -> str:
        """A warning if outputs are empty or much too short, more than now and then; else empty.

        advice: options to try besides longer training, or empty.
        """
        if self.inputs < FEW or self.blank + self.short <= NOW_AND_THEN * self.inputs:
            return ""
        why = f", or its scores prefer short outputs; try {advice}" if advice else ""
        return (
            f"of {self.inputs:,} outputs, {self.blank:,} are empty and {self.short:,} much shorter than their inputs: "
            f"the model has been trained too little{why}"
        )

    def describe(self, task_counts: Mapping[str, int], seconds: float) -> str:
        """The number of inputs, the numbers of special cases here and in the task, and the speed."""
        special = {
            "empty": self.empty,
            "with unknown symbols": self.unknown,
            "in parts": self.split,
            "longer than in training": self.longer,
            "cut": self.truncated,
            "without any output": self.unanswered,
            "searched again": self.revised,
            "lacking what is required": self.lacking,
            "outputs cut at the limit": self.unfinished,
            "outputs empty": self.blank,
            "outputs much too short": self.short,
            **task_counts,
        }
        notes = "".join(f", {count:,} {what}" for what, count in special.items() if count)
        n_inputs, n_tokens = (count / max(seconds, 1e-9) for count in (self.inputs, self.tokens))
        inputs = f"{self.inputs:,} {'input' if self.inputs == 1 else 'inputs'}"
        return f"{inputs}{notes} in {seconds:.1f} s: {n_inputs:,.1f} sentences/s, {n_tokens:,.0f} tokens/s"
