"""The phrases that an output must contain, whatever tokens spell them."""

from __future__ import annotations

__all__ = ["Lack", "Phrase", "Progress"]

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


class Lack(NamedTuple):
    """Why an output does not contain a phrase, or not for good."""

    is_open: bool
    """Whether it ends with the phrase, whose last word may still go on"""
    begin: int
    """From where on its symbols may be part of an occurrence, or of a character that is incomplete"""


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

    @property
    def n_tokens(self) -> int:
        """Of its usual tokens, at most."""
        return len(self.spaced)

    def lack(self, output: str, spelling: Spelling) -> Lack | None:
        """None: the output contains the phrase, whatever follows."""
        end = self._end(output)
        if end is None:
            overlap = max([_overlap(output, form) for form in self.forms(spelling)])
            return Lack(False, len(output) - max(overlap, n_incomplete(output) if self.whole else 0))
        return Lack(True, end - len(self.text)) if self.whole and not characters(output[end : end + LONGEST]) else None

    def _end(self, output: str) -> int | None:
        """Where the first occurrence ends, maybe in a word that continues behind the output; None: there is none."""
        start = output.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            if not self.whole or not (inside(output, start) or inside(output, end)):
                return end
            start = output.find(self.text, start + 1)
        return None

    def progress(self, output: str, spelling: Spelling) -> list[Progress]:
        """One, in those of its usual tokens that the end of the output has most of."""
        starts = not output or output[-1] == " "
        usual = self.tokens if starts else self.spaced
        best = Progress(0, len(usual), usual[0])
        for tokens in (self.tokens, self.spaced):
            for n in range(len(tokens) - 1, best.n_tokens, -1):
                written = "".join(spelling.texts[i] for i in tokens[:n])
                if output.endswith(written) and self._may_begin(output, len(output) - len(written), written):
                    best = Progress(n, len(tokens) - n, tokens[n])
                    break
        return [best]

    def forms(self, spelling: Spelling) -> set[str]:
        """The symbols of its text, and of its usual tokens."""
        return _forms(self, spelling)

    def _may_begin(self, output: str, start: int, written: str) -> bool:
        return not self.whole or written[:1] == " " or not inside(output, start)


@lru_cache(maxsize=1000)
def _forms(phrase: Phrase, spelling: Spelling) -> set[str]:
    return {phrase.text, *("".join(spelling.texts[i] for i in tokens) for tokens in (phrase.tokens, phrase.spaced))}


def _overlap(output: str, form: str) -> int:
    """How many symbols at the end of the output are the first of `form`."""
    begin = output.find(form[0], max(len(output) - len(form), 0))
    while begin >= 0 and not form.startswith(output[begin:]):
        begin = output.find(form[0], begin + 1)
    return len(output) - begin if begin >= 0 else 0
