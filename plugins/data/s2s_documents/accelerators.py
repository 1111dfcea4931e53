"""Accelerators of menus and buttons, such as &File, _Open and ~Close: taken out of a message, and put back."""

from __future__ import annotations

__all__ = ["Accelerator", "without_accelerator"]

import re
from typing import TYPE_CHECKING, NamedTuple

import regex

from s2s.text import UNSPACED
from s2s_documents.message_flow import message_flow
from s2s_documents.tokens import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = re.compile(
    r"(?<![^\s(\[{<>\"'“„«-])[&_~](?=[^\W\d_])"  # before a word
    r"|(?<=[^\W\d_])[&_~](?=[^\W\d_])"  # within one
)
IN_BRACKETS = re.compile(r"[ ]?\(([&_~])([^\W_])\)")
"""As messages in scripts without single letters on keyboards have it: at the end"""
WORD = re.compile(r"[^\W_](?:[^\W_]|[&_~](?=[^\W_]))*")
FIRST_LETTER = re.compile(r"(?<![\w'’])[^\W\d_]")
UNSPACED_LETTER = regex.compile(f"[{UNSPACED}]")
END = re.compile(r"\s*(?:\.\.\.|…|[:：])?\s*\Z")


class Accelerator(NamedTuple):
    """A key that chooses an entry."""

    mark: str
    letter: str

    def put_into(self, message: str) -> str:
        """The message with the mark before a word that begins with the letter, else before the first word; with both in
        brackets at the end where words are in a script without blanks, which keyboards do not have as single keys."""
        places = [at + one.start() for at, text in _texts(message) for one in FIRST_LETTER.finditer(text)]
        if not places:
            return message
        at = next((at for at in places if message[at].lower() == self.letter.lower()), places[0])
        if UNSPACED_LETTER.match(message[at]):
            end = END.search(message)
            assert end
            return f"{message[: end.start()]}({self.mark}{self.letter.upper()}){end[0]}"
        return f"{message[:at]}{self.mark}{message[at:]}"


def without_accelerator(message: str) -> tuple[str, Accelerator | None]:
    """The message without its accelerator; with all of it, and None, if it has none or what may be several."""
    if (match := IN_BRACKETS.search(message)) is not None:
        return message[: match.start()] + message[match.end() :], Accelerator(match[1], match[2])
    singles = (one for at, text in _texts(message) for one in re.finditer(r"([&_~])\1|[&_~]", text) if not one[1])
    places = [at + one.start() for at, text in _texts(message) for one in MARK.finditer(text)]
    if len(places) != 1 or [one[0] for one in singles].count(message[places[0]]) > 1:
        return message, None
    at = places[0]
    if message[at - 1 : at].isalpha() and not _is_within_a_title(message, at):
        return message, None
    return message[:at] + message[at + 1 :], Accelerator(message[at], message[at + 1])


def _is_within_a_title(message: str, at: int) -> bool:
    """Whether a mark is in a word such as E&xit, not between two, as in R&D and snake_case."""
    word = next(one for one in WORD.finditer(message) if one.start() < at < one.end())
    return word[0][0].isupper() and message[at + 1].islower()


def _texts(message: str) -> Iterator[tuple[int, str]]:
    """What is text in a message, not a tag or a placeholder, and where it begins."""
    at, begin = 0, 0
    for token in message_flow(message):
        if token.kind is not Kind.TEXT or token.kept:
            yield begin, message[begin:at]
            begin = at + len(token.raw)
        at += len(token.raw)
    yield begin, message[begin:]
