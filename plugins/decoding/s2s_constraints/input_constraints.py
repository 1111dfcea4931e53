"""What an input requires of its own output: its prefix, its phrases, the terms of a glossary. No torch at import."""

from __future__ import annotations

__all__ = ["LexicalConstraints"]

from typing import TYPE_CHECKING

from s2s import ConfigError, Example
from s2s.generation import RequestConstraints
from s2s_constraints.annotation import reads_annotations, term_notes
from s2s_constraints.spelling import Spelling
from s2s_constraints.symbols import symbols_of
from s2s_constraints.task_texts import TaskTexts
from s2s_constraints.terms import TermFields, Terms, glossary_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Choice, Task
    from s2s.decoding import FixedWidthConstraint
    from s2s.generation import Input
    from s2s_constraints import ConstraintOptions
    from s2s_constraints.glossary import Glossary
    from s2s_constraints.lexical import LexicalConstraint


def _constraint(config: ConstraintOptions, texts: TaskTexts, sentence: Input) -> LexicalConstraint:
    """Of prefix and phrases."""
    from s2s_constraints.lexical import LexicalConstraint  # torch, which other inputs do without

    prefixes, whole = texts.prefixes(sentence.prefix) if sentence.prefix else (), config.phrases_match == "words"
    phrases = tuple(texts.phrase(phrase, whole=whole) for phrase in sentence.phrases if phrase)
    return LexicalConstraint(texts.spelling, prefixes, phrases)


def _glossary(config: ConstraintOptions, sentence: Input) -> Glossary:
    return glossary_of(config.terms, sentence.fields.get("terms", {}))


class LexicalConstraints(RequestConstraints):
    """The constraints that prefix, phrases and terms of an input set on its output."""

    fields = TermFields
    reads_texts = True

    def __init__(self, config: Choice) -> None:
        self._spellings: dict[Task, Spelling] = {}

    def for_outputs(
        self,
        config: ConstraintOptions,  # type: ignore[override]  # which this plugin adds to GenerateConfig
        task: Task,
    ) -> Sequence[FixedWidthConstraint]:
        """None; a bad file of terms is refused before anything is decoded, and so are annotations that are not read."""
        glossary_of(config.terms, {})
        if config.terms_by == "annotation" and not reads_annotations(task):
            raise ConfigError(
                "terms_by=annotation: the model was trained without task.noise=[terms] and does not read annotations; "
                "give terms_by=constraint, or train it with this noise"
            )
        return ()

    def for_sentence(
        self,
        config: ConstraintOptions,  # type: ignore[override]  # which this plugin adds to GenerateConfig
        task: Task,
        sentence: Input,
    ) -> LexicalConstraint | None:
        """Prefix and phrases in the task's spelling; DataError if they cannot be output verbatim."""
        if sentence.prefix or any(sentence.phrases):
            return _constraint(config, self._texts(task, sentence), sentence)
        return None

    def notes(
        self,
        config: ConstraintOptions,  # type: ignore[override]
        task: Task,
        sentence: Input,
    ) -> list[tuple[int, int, str]]:
        """The translations of terms, for a model that was trained to read them."""
        if config.terms_by == "constraint" or not reads_annotations(task):
            return []
        return term_notes(_glossary(config, sentence), sentence.src, task.covers)

    def revision(
        self,
        config: ConstraintOptions,  # type: ignore[override]
        task: Task,
        sentence: Input,
    ) -> Terms | None:
        """The terms that the sentence has, in addition to its prefix and phrases."""
        glossary = _glossary(config, sentence)
        if not glossary.terms_in(sentence.src):
            return None
        texts = self._texts(task, sentence)
        return Terms(glossary, texts, _constraint(config, texts, sentence))

    def _texts(self, task: Task, sentence: Input) -> TaskTexts:
        return TaskTexts(task, Example(sentence.src, fields=sentence.fields), self._spelling(task))

    def _spelling(self, task: Task) -> Spelling:
        if task not in self._spellings:
            spellings = task.spellings()
            spelt = Spelling.tokens(task.vocab.tgt) if spellings is None else Spelling(list(map(symbols_of, spellings)))
            self._spellings[task] = spelt
        return self._spellings[task]
