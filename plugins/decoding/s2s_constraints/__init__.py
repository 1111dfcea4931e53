"""Constraints set by a user: bad_words, the prefix, phrases and terms of an output, and
noise with which a model learns to read terms.

No torch at import.
"""

from __future__ import annotations

__all__ = ["ConstraintOptions", "TermNoiseConfig", "s2s_register"]

from dataclasses import dataclass, field
from typing import Literal

from s2s import Choice, Registry, hookimpl
from s2s.config import GenerateConfig, Mark
from s2s.data import noise


@dataclass(kw_only=True)
class ConstraintOptions(GenerateConfig):
    """What every output must and must not contain."""

    bad_words: list[str] = field(default_factory=list)
    """Texts whose token sequences, as the task encodes them, never occur in an output: bad_words=[word,"two words"]."""
    phrases_match: Literal["words", "letters"] = field(default="words", metadata=Mark.ADDED)
    """Where an input's `phrases` count. words: as whole words, in any tokens. letters: within words, too."""
    terms: str = field(default="", metadata=Mark.ADDED | Mark.NAMES_FILE)
    """Glossary, a TSV file: a term of the source, and its translation, or several separated by |; further columns are
    ignored. The output has one of them where the term occurs as whole words, whatever the case. An input may have
    terms of its own, as a field `terms`."""
    terms_by: Literal["auto", "annotation", "constraint"] = field(default="auto", metadata=Mark.ADDED)
    """How outputs get their terms. annotation: the model reads translations beside the terms, and chooses their form,
    which it has learnt by task.noise=[terms]; an output without one is searched again. constraint: outputs without a
    term are searched again, and must contain it. auto: annotation, if the model was trained with it."""


@dataclass(kw_only=True)
class TermNoiseConfig(noise.NoiseConfig):
    """Translations of terms, annotated in sources whose targets have them (Dinu et al., 2019)."""

    share: float = 0.2
    """Share of the training pairs whose source is annotated, where the target has a translation that is known."""
    file: str = ""
    """Glossary, as the option `terms` of s2s-generate; empty: words of the training pairs, each with the one that is
    most associated with it."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(ConstraintOptions)
    registry.add("constraint", "tokens", Choice, "s2s_constraints.tokens:TokenConstraints")
    registry.add("noise", "terms", TermNoiseConfig, "s2s_constraints.annotation:AnnotatedTerms")
    registry.add("constraint", "lexical", Choice, "s2s_constraints.input_constraints:LexicalConstraints")
