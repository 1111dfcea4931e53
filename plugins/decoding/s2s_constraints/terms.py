"""What the terms of a source require of its output."""

from __future__ import annotations

__all__ = ["TermFields", "Terms", "glossary_of"]

import logging
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s import ConfigError, DataError
from s2s_constraints.alternatives import Alternatives
from s2s_constraints.glossary import Glossary, Term, read_glossary
from s2s_constraints.term_forms import form_in, required_forms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s_constraints.lexical import LexicalConstraint
    from s2s_constraints.phrases import Phrase
    from s2s_constraints.task_texts import TaskTexts

logger = logging.getLogger(__name__)
NO_TERMS = Glossary()


@dataclass(kw_only=True)
class TermFields:
    """Fields of inputs."""

    terms: dict[str, Any] = field(default_factory=dict)
    """Terms of the source and their translations, one each or a list of alternatives, as in {"dog": "Hund"}: the output
    has them where the term occurs. They replace those of the option `terms`."""

    def __post_init__(self) -> None:
        for source, targets in self.terms.items():
            texts = targets if isinstance(targets, list) else [targets]
            if not isinstance(source, str) or not source.strip():
                raise ConfigError(f"terms: {source!r} is no term of a source; give a text that is not blank")
            if not all(isinstance(text, str) for text in texts):
                raise ConfigError(
                    f"terms: {source!r} has a text as its translation, or a list of texts, not {targets!r}"
                )
            if not texts or not all(map(str.strip, texts)):
                raise ConfigError(f"terms: {source!r} has an empty translation; give a text, or leave the term out")


def glossary_of(path: str, terms: Mapping[str, Any]) -> Glossary:
    """The glossary of a file, if any, with the terms of an input; raises DataError for a bad file."""
    items = ((source, tuple(targets) if isinstance(targets, list) else (targets,)) for source, targets in terms.items())
    return _with_terms(read_glossary(path) if path else NO_TERMS, tuple(items))


@lru_cache(maxsize=64)
def _with_terms(glossary: Glossary, items: tuple[tuple[str, tuple[str, ...]], ...]) -> Glossary:
    return glossary.with_terms(Term(*item) for item in items) if items else glossary


class _Requirement(NamedTuple):
    """Of one term."""

    term: Term
    phrases: tuple[Phrase, ...]
    """Of which a second search requires any"""


class Terms:
    """The terms that occur in a source; called with its output, the constraint of a second search, or None."""

    def __init__(self, glossary: Glossary, texts: TaskTexts, constraint: LexicalConstraint) -> None:
        """constraint: what is required of the output anyway."""
        self.texts, self.constraint = texts, constraint
        every = (self._requirement(*one) for one in glossary.terms_in(texts.source.src))
        self.requirements = [one for one in every if one.phrases]

    def __call__(self, output: str) -> LexicalConstraint | None:
        """None if the output has a form of every term. A form that it has is one of those that are then required."""
        forms = [self._form(output, one.term) for one in self.requirements]
        if all(forms):
            return None
        phrases = [self._with(one.phrases, form) for one, form in zip(self.requirements, forms, strict=True)]
        return replace(self.constraint, phrases=(*self.constraint.phrases, *map(Alternatives, phrases)))

    def _requirement(self, term: Term, written: str) -> _Requirement:
        """written: how the term is written in the source."""
        any_case = term.source[:1].isupper() and not written[:1].isupper()
        forms = dict.fromkeys(form for target in term.targets for form in required_forms(target, any_case=any_case))
        phrases: list[Phrase] = []
        for form in forms:
            try:
                phrases.append(self.texts.phrase(form, whole=True))
            except DataError as error:
                if form in term.targets:
                    _warn(str(error))
        return _Requirement(term, tuple(phrases))

    def _form(self, output: str, term: Term) -> str | None:
        return next((form for target in term.targets if (form := form_in(output, target))), None)

    def _with(self, phrases: tuple[Phrase, ...], form: str | None) -> tuple[Phrase, ...]:
        """A form with what no token spells, such as a symbol that was put back into the output, is not among them."""
        if form is None:
            return phrases
        try:
            return tuple(dict.fromkeys((*phrases, self.texts.phrase(form, whole=True))))
        except DataError:
            return phrases


@lru_cache(maxsize=1000)
def _warn(message: str) -> None:
    logger.warning("terms: %s; it is not required", message)
