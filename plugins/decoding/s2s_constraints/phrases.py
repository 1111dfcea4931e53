"""The phrases that an output must contain, whatever tokens spell them."""

from __future__ import annotations

__all__ = ["Phrase", "Progress", "forms"]

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from s2s_constraints.symbols import LONGEST, characters, inside, n_incomplete

if TYPE_CHECKING:
    from s2s_constraints.spelling import Spelling


class Progress(NamedTuple):
    """How far the end of an output has come in the usual tokens of a phrase."""

    n_tokens: int
    """Of the phrase, at the end of the output"""
    missing: int
    """Of the phrase"""
    following: int
    """The token that comes next"""


@dataclass(frozen=True)
class Phrase:
    """A text, and tokens that spell it."""

    text: str
    """Symbols, without blanks at the edges"""
    tokens: tuple[int, ...]
    """Its usual tokens, at the beginning of an output or behind a blank"""
    spaced: tuple[int, ...]
    """The same anywhere else, such as with a blank before them"""
    whole: bool
    """Whether it counts only as whole words"""

    def __hash__(self) -> int:
        return hash(self.text)  # which Python computes once

    def end(self, output: str) -> int | None:
        """Where the first occurrence ends; None: there is none.

        That of a whole word may be at the end of the output, where the word may still go on (`is_open`).
        """
        start = output.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            if not self.whole or not (inside(output, start) or inside(output, end)):
                return end
            start = output.find(self.text, start + 1)
        return None

    def is_open(self, output: str, end: int) -> bool:
        """Whether the next token may continue the word that ends the phrase."""
        return self.whole and not characters(output[end : end + LONGEST])

    def begin(self, output: str, end: int | None, spelling: Spelling) -> int:
        """From where on symbols of the output may be part of an occurrence, or of a character that is incomplete.

        end: where the first occurrence ends.
        """
        if end is not None:
            return end - len(self.text)
        overlap = max([_overlap(output, form) for form in forms(self, spelling)])
        return len(output) - max(overlap, n_incomplete(output) if self.whole else 0)

    def progress(self, output: str, spelling: Spelling) -> Progress:
        """In those of its usual tokens that the end of the output has most of."""
        starts = not output or output[-1] == " "
        usual = self.tokens if starts else self.spaced
        best = Progress(0, len(usual), usual[0])
        for tokens in (self.tokens, self.spaced):
            for n in range(len(tokens) - 1, best.n_tokens, -1):
                written = "".join(spelling.texts[i] for i in tokens[:n])
                if output.endswith(written) and self._may_begin(output, len(output) - len(written), written):
                    best = Progress(n, len(tokens) - n, tokens[n])
                    break
        return best

    def _may_begin(self, output: str, start: int, written: str) -> bool:
        return not self.whole or written[:1] == " " or not inside(output, start)


@lru_cache(maxsize=1000)
def forms(phrase: Phrase, spelling: Spelling) -> set[str]:
    """The symbols of its text, and of its usual tokens."""
    return {phrase.text, *("".join(spelling.texts[i] for i in tokens) for tokens in (phrase.tokens, phrase.spaced))}


def _overlap(output: str, form: str) -> int:
    """How many symbols at the end of the output are the first of `form`."""
    begin = output.find(form[0], max(len(output) - len(form), 0))
    while begin >= 0 and not form.startswith(output[begin:]):
        begin = output.find(form[0], begin + 1)
    return len(output) - begin if begin >= 0 else 0
