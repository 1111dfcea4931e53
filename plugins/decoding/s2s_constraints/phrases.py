"""The phrases that an output must contain, whatever tokens spell them."""

from __future__ import annotations

__all__ = ["Phrase", "Progress"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from s2s_constraints.spelling import joins

if TYPE_CHECKING:
    from s2s_constraints.spelling import Spelling

LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8"""


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

    def end(self, output: str, begin: int) -> int | None:
        """Where the first occurrence at or after `begin` ends; None: there is none.

        That of a whole word may be at the end of the output, where the word may still go on (`is_open`).
        """
        start = output.find(self.text, begin)
        while start >= 0:
            end = start + len(self.text)
            if not self.whole or not (_inside(output, start) or _inside(output, end)):
                return end
            start = output.find(self.text, start + 1)
        return None

    def is_open(self, output: str, end: int) -> bool:
        """Whether the next token may continue the word that ends the phrase."""
        return self.whole and not _characters(output[end : end + LONGEST_CHARACTER])

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
        return not self.whole or written[:1] == " " or not _inside(output, start)


def _inside(output: str, at: int) -> bool:
    """Whether a position is within a word; not if the character behind it is still missing or incomplete."""
    before, after = output[max(at - LONGEST_CHARACTER, 0) : at], output[at : at + LONGEST_CHARACTER]
    return joins(_characters(before)[-1:], _characters(after)[:1])


def _characters(symbols: str) -> str:
    return symbols.encode("latin-1").decode(errors="ignore")
