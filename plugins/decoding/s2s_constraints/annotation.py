"""Annotated sources: each term is followed by its translation, between symbols ("append" of Dinu et al., 2019).

    The <|term|> dog <|is|> Hund <|/term|> sees …

A model that was trained with such sources writes the translation that it is given, in the form that the output needs.
"""

from __future__ import annotations

__all__ = ["AnnotatedTerms", "reads_annotations", "term_notes"]

from typing import TYPE_CHECKING

from s2s import DataError
from s2s.data import TextTask, noise
from s2s.io import expand_user, write_file
from s2s_constraints.glossary import SEPARATOR, Glossary, read_glossary
from s2s_constraints.lexicon import associated_terms
from s2s_constraints.term_forms import form_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from random import Random

    from s2s import Task
    from s2s_constraints import TermNoiseConfig

SYMBOLS = BEGIN, TRANSLATION, END = "<|term|>", "<|is|>", "<|/term|>"
IS_ANNOTATED = 0.5
"""Share of the terms of an altered pair that are annotated; at least one is"""


class AnnotatedTerms(noise.Noise):
    """Annotates terms with the translation of which the target has any form, so that a model learns to choose it."""

    symbols = SYMBOLS
    path: Path
    """Of the glossary, set by `load`"""

    def __init__(self, config: TermNoiseConfig) -> None:
        super().__init__(config)
        self.file = config.file

    def files(self) -> list[Path]:
        """The glossary, if one is given."""
        return [expand_user(self.file, "task.noise.terms.file")] if self.file else []

    def learn(self, pairs: Iterable[tuple[str, str]], path: Path) -> None:
        """Keep the glossary, or words of the pairs with the translations that are associated with them.

        Raises DataError if no pair could be annotated.
        """
        if not self.file:
            glossary, lack = Glossary(associated_terms(pairs)), "too few words to learn terms from"
            is_used = bool(glossary.terms)
        else:
            glossary, lack = read_glossary(self.file), f"no term of {self.file} beside its translation"
            is_used = any(_translated(glossary, *pair) for pair in pairs)
        if not is_used:
            raise DataError(f"task.noise: the training pairs have {lack}; give {{name: terms, file: …}}, or no terms")
        lines = (f"{term.source}\t{SEPARATOR.join(term.targets)}\n" for term in glossary.terms.values())
        write_file(path, "".join(lines))

    def load(self, path: Path) -> None:
        """Take over the glossary that was kept."""
        self.path = path

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """The source with some of its terms annotated; unchanged if the target has none of their translations."""
        terms = _translated(read_glossary(str(self.path)), src, tgt)
        if not terms:
            return src, tgt
        chosen = [term for term in terms if draw.random() < IS_ANNOTATED] or [draw.choice(terms)]
        pieces, end = list[str](), 0
        for _, place, note in _notes(chosen):
            pieces += src[end:place], note
            end = place
        return "".join([*pieces, src[end:]]), tgt


def reads_annotations(task: Task) -> bool:
    """Whether a model of this task was trained with annotated terms."""
    return isinstance(task, TextTask) and any(isinstance(one, AnnotatedTerms) for one in task.noises)


def term_notes(glossary: Glossary, src: str, covers: Callable[[str], bool]) -> list[tuple[int, int, str]]:
    """What is read beside a source: the first translation of each of its terms that the vocabulary covers."""
    given = ((begin, end, list(filter(covers, term.targets))) for begin, end, term, _ in glossary.occurrences(src))
    return list(_notes((begin, end, targets[0]) for begin, end, targets in given if targets))


def _translated(glossary: Glossary, src: str, tgt: str) -> list[tuple[int, int, str]]:
    """Begin and end of each term of the source, and the first of its translations of which the target has a form."""
    given = (
        (begin, end, [target for target in term.targets if form_in(tgt, target)])
        for begin, end, term, _ in glossary.occurrences(src)
    )
    return [(begin, end, targets[0]) for begin, end, targets in given if targets]


def _notes(terms: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """The annotations of terms as notes, of which the last character of a term has the symbols behind it."""
    for begin, end, target in terms:
        yield begin, begin, f"{BEGIN} "
        yield end - 1, end, f" {TRANSLATION} "
        yield begin, end, target
        yield end - 1, end, f" {END}"
