"""Metrics of text: BLEU, chrF and TER by sacrebleu, GLEU, WER, PER, accuracy, and the paper's BLEU over Moses tokens.

No sacrebleu at import.
"""

from __future__ import annotations

__all__ = ["BleuConfig", "BleuMosesConfig", "ChrfConfig", "GleuConfig", "TerConfig", "WordsConfig", "s2s_register"]

import math
from dataclasses import dataclass
from typing import Literal

from s2s import Choice, ConfigError, Registry, hookimpl


@dataclass(kw_only=True)
class BleuConfig(Choice):
    """BLEU as sacrebleu computes it, on detokenised text."""

    tokenize: Literal["13a", "intl", "zh", "char", "none", "ja-mecab", "ko-mecab", "flores101", "flores200", "spm"] = (
        "13a"
    )
    """sacrebleu's tokenisation; 13a is that of WMT, none leaves the text unchanged. flores101, flores200 and spm are
    the subwords of `tokenizer_file`."""
    tokenizer_file: str = ""
    """Model of sentencepiece: for flores101 and flores200 the one that sacrebleu downloads, for spm any."""
    lowercase: bool = False
    """Compare without regard to case."""
    smooth: Literal["exp", "floor", "add-k", "none"] = "exp"
    """Smoothing of n-gram precisions of zero."""
    smooth_value: float | None = None
    """The count of floor, 0.1 by default, or the number that add-k adds, 1 by default."""
    max_ngram_order: int = 4
    """Longest n-gram."""
    effective_order: bool = False
    """Leave out the orders of which there is no n-gram, or no match, as scores of single sentences always do."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_ngram_order <= 100:
            raise ConfigError(f"metrics.bleu.max_ngram_order={self.max_ngram_order}: give a number from 1 to 100")
        if self.smooth_value is not None and self.smooth not in ("floor", "add-k"):
            raise ConfigError(f"metrics.bleu.smooth_value is for smooth=floor and add-k, not {self.smooth}")
        if self.smooth_value is not None and not 0 < self.smooth_value < math.inf:
            raise ConfigError(f"metrics.bleu.smooth_value={self.smooth_value} must be above 0")
        if bool(self.tokenizer_file) != (self.tokenize in ("flores101", "flores200", "spm")):
            needs = "does not read" if self.tokenizer_file else "needs"
            raise ConfigError(f"metrics.bleu.tokenize={self.tokenize} {needs} a tokenizer_file of sentencepiece")


@dataclass(kw_only=True)
class ChrfConfig(Choice):
    """chrF2, the F-score of character n-grams, as sacrebleu computes it."""

    char_order: int = 6
    """Longest character n-gram."""
    word_order: int = 0
    """Longest word n-gram; 2 gives chrF++."""
    beta: int = 2
    """Weight of recall relative to precision."""
    lowercase: bool = False
    """Compare without regard to case."""
    whitespace: bool = False
    """Count blanks as characters."""

    def __post_init__(self) -> None:
        for name, least in (("char_order", 1), ("word_order", 0), ("beta", 1)):
            if not least <= getattr(self, name) <= 100:
                raise ConfigError(f"metrics.chrf.{name}={getattr(self, name)}: give a number from {least} to 100")


@dataclass(kw_only=True)
class TerConfig(Choice):
    """Translation edit rate, as sacrebleu computes it; lower is better."""

    lowercase: bool = True
    """Compare without regard to case, as Tercom does."""
    normalize: bool = False
    """Split off punctuation and undo XML escapes first."""
    punctuation: bool = True
    """Count punctuation."""
    asian_support: bool = False
    """Separate Chinese and Japanese characters, for languages without blanks; with normalize=true."""

    def __post_init__(self) -> None:
        if self.asian_support and not self.normalize:
            raise ConfigError("metrics.ter.asian_support=true needs normalize=true, without which it has no effect")


@dataclass(kw_only=True)
class WordsConfig(Choice):
    """Word error rate (wer), the same without regard to order (per), or the share of outputs without error (accuracy).

    They compare the words between blanks of any text, in percent.
    """

    lowercase: bool = False
    """Compare without regard to case."""


@dataclass(kw_only=True)
class GleuConfig(Choice):
    """GLEU, the minimum of precision and recall of n-grams up to four words, for sentences (Wu et al., 2016)."""

    tokenize: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """sacrebleu's tokenisation; none leaves the text unchanged."""
    lowercase: bool = False
    """Compare without regard to case."""


@dataclass(kw_only=True)
class BleuMosesConfig(Choice):
    """The paper's BLEU: Moses tokenisation, hyphens split, case kept, with the reference tokenised in the same way.

    Multi30k scores are computed with lowercase=true normalize=true split_hyphens=false.
    """

    lang: str = ""
    """Language of the outputs, such as de, for the Moses rules; empty: that of the task."""
    split_hyphens: bool = True
    """Write a hyphen between two characters as ` ##AT##-##AT## `, as the paper's authors did on both sides."""
    lowercase: bool = False
    """Lower-case both sides before anything else."""
    normalize: bool = False
    """Normalise punctuation (Moses' normalize-punctuation) before tokenising."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The metrics, under their names."""
    registry.metric("bleu", BleuConfig, "s2s_metrics.sacre:Bleu")
    registry.metric("chrf", ChrfConfig, "s2s_metrics.sacre:Chrf")
    registry.metric("ter", TerConfig, "s2s_metrics.sacre:Ter")
    registry.metric("wer", WordsConfig, "s2s_metrics.words:WordErrorRate")
    registry.metric("per", WordsConfig, "s2s_metrics.words:PositionIndependentErrorRate")
    registry.metric("accuracy", WordsConfig, "s2s_metrics.words:Accuracy")
    registry.metric("gleu", GleuConfig, "s2s_metrics.gleu:Gleu")
    registry.metric("bleu_moses", BleuMosesConfig, "s2s_metrics.moses:BleuMoses")
