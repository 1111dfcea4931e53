"""Annotation styles: the corpus that a sentence is from, named by a mark, `<NAME>`, in front of the sentence."""

from __future__ import annotations

__all__ = ["Styles", "mark_of"]

import logging
import re
from typing import TYPE_CHECKING

from s2s import ConfigError, did_you_mean
from s2s_parsing.source_encoder import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)


class Styles:
    """The training corpora that a parser distinguishes, and the one whose annotation outputs follow."""

    def __init__(self, names: Sequence[str] = (), default: str = "") -> None:
        """Without names, sentences have no marks. `default`: the style of a sentence without a mark."""
        self.names = names
        self.marks = [mark_of(name) for name in names]
        self.default = mark_of(default)
        self._warned: set[str] = set()
        if names and default not in names:
            raise ConfigError(
                f"task.style={default}: not the style of a corpus in task.train.{did_you_mean(default, names)}"
            )
        for name in names:
            if words_of(name) != [name]:
                raise ConfigError(
                    f"task.train.{name}: as a style, a corpus needs a name without blanks and round brackets"
                )

    def in_style(self, sentence: str, style: str) -> str:
        """A corpus's sentence behind the mark of its style if that is known, else behind the default one.

        A first word that equals a mark is a word here: only sentences from a user have marks of their own.
        """
        mark = mark_of(style)
        return f"{mark if mark in self.marks else self.default} {sentence}" if self.marks else sentence

    def marked(self, sentence: str) -> str:
        """The sentence behind its own mark, else behind the default one."""
        mark, text = self.split(sentence)
        return sentence if not self.marks or mark or not words_of(text) else f"{self.default} {sentence}"

    def split(self, sentence: str) -> tuple[str, str]:
        """The mark, empty if there is none, and the sentence behind it."""
        first = words_of(sentence)[:1]
        return (first[0], sentence.partition(first[0])[2]) if first and first[0] in self.marks else ("", sentence)

    def warn_of_unknown(self, lines: Sequence[str]) -> None:
        """Warn, once for each, of first words that look like a mark but name no style: they are parsed as words."""
        for first in dict.fromkeys(word for line in lines for word in words_of(line)[:1]) if self.marks else ():
            if first not in self._warned and first not in self.marks and re.fullmatch(r"<[^<>]+>", first):
                self._warned.add(first)
                logger.warning(
                    "%s at the beginning of a sentence is parsed as a word: styles are %s.%s",
                    first,
                    ", ".join(self.marks),
                    did_you_mean(first, self.marks),
                )


def mark_of(style: str) -> str:
    """What a sentence of this style begins with."""
    return f"<{style}>"
