"""Texts that an output has exactly as they are given: a model writes what its tokens spell of them."""

from __future__ import annotations

__all__ = ["NOTHING", "Literal", "Literals", "Required", "occurrences"]

import re
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, NamedTuple

from s2s.data.invisible import visible
from s2s.errors import DataError
from s2s.text.lazy_pattern import LazyPattern
from s2s.text.words import CLOSING, OPENING, atoms, is_unspaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from s2s.generation.candidates import Input
    from s2s.generation.kept_parts import KeptParts, Part
    from s2s.task import Task

WORDS = LazyPattern(r"\S+")
UNSPELT = "\0"
"""A letter that no token spells"""
MOST = 20_000
"""Texts of which it is remembered whether tokens spell them"""


class Literal(NamedTuple):
    """A text, and what a model writes in its place."""

    text: str
    required: str
    """What is required of the model: the text without what no token spells; empty: nothing"""
    written: str
    """The same as outputs show it, without blanks at its edges"""
    is_open: bool
    """Whether the model may continue its last word"""

    def n_written(self, output: str) -> int:
        """How many characters at the beginning of an output stand for the text."""
        at = output.find(self.written)
        if at >= 0 and not output[:at].strip():
            return at + len(self.written)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.written, output, strict=False)))

    def before(self, rest: str) -> str:
        """The text, and what follows it, with a blank between two words, unless the first of them is open."""
        if not rest or self.text[-1:].isspace():
            return self.text + rest.lstrip()
        last, first = self.text[-1:], rest[0]
        is_opening = last in OPENING or (last in "\"'" and self.text.count(last) % 2 == 1)
        if is_opening and not (self.is_open and self.written):
            return self.text + rest.lstrip()
        is_one = (self.is_open and self.written) or first.isspace() or first in CLOSING
        return self.text + ("" if is_one or (is_unspaced(last) and is_unspaced(first)) else " ") + rest

    def put_into(self, output: str) -> str:
        """The output with the text: in place of what the model wrote for it, else at its end."""
        if self.text in output:
            return output
        written = LazyPattern(rf"(?<!\w){re.escape(self.written)}(?!\w)")
        found = written.search(output) if self.written else None
        if found:
            return output[: found.start()] + self.text + output[found.end() :]
        return f"{output.rstrip()} {self.text}".lstrip()


class Required(NamedTuple):
    """What is required of the output of one piece of a text."""

    prefix: Literal | None = None
    phrases: tuple[Literal, ...] = ()
    is_complete: bool = False
    """Whether the prefix is the whole output"""

    def __bool__(self) -> bool:
        return self.prefix is not None or bool(self.phrases)

    def copied(self, text: str) -> str:
        """The output of a piece without words to translate, of which this text is copied."""
        if self.prefix is not None:
            begun = self.prefix.text
            left = "" if self.is_complete or text in begun else text
            text = left if left.startswith(begun) else self.prefix.before(left and f" {left}")
        for phrase in self.phrases:
            text = phrase.put_into(text)
        return text


NOTHING = Required()


class Literals:
    """Finds what a task's tokens spell of texts for its outputs."""

    def __init__(self, task: Task, keep: KeptParts) -> None:
        """keep: finds what is copied, not spelt."""
        self.task, self.keep = task, keep
        self.spells = lru_cache(maxsize=MOST)(self._spells)

    def required(self, source: Input, kept: Sequence[Part], *, is_complete: bool) -> tuple[Required, Input, list[Part]]:
        """What is required of an output, the input with what a model can satisfy of it, and the kept parts of the
        source, of which those in the prefix or in a phrase are given."""
        if self.task.spellings() is None:  # tokens are compared, and texts without any are refused
            begun = Literal(source.prefix, source.prefix, source.prefix, is_open=True) if source.prefix else None
            return Required(begun, (), is_complete), source, list(kept)
        prefix = self._literal(_continued(source.prefix, source.src, kept)) if source.prefix else None
        phrases = [self._literal(phrase) for phrase in source.phrases if phrase.strip()]
        given = [prefix.text] if prefix else []
        given += [one.text for one in phrases if one.written and one.text != one.written]
        possible = tuple(one.required for one in phrases if one.required)
        sought = replace(source, prefix=prefix.required if prefix else "", phrases=possible)
        return Required(prefix, tuple(phrases), is_complete), sought, _with_given(kept, source.src, given)

    def _literal(self, text: str) -> Literal:
        shown = visible(text)
        required, is_open = self._spelt(shown)
        if not required.strip():
            return Literal(text, "", "", is_open=False)
        written = self.task.spell(required.rstrip()).decode(errors="ignore").strip()
        is_closed = not is_open and written[-1:].isalnum() and not is_unspaced(written[-1])
        return Literal(text, f"{required.rstrip()} " if is_closed else required, written, is_open)

    def _spelt(self, text: str) -> tuple[str, bool]:
        """The text without what no token spells, and whether its last word is open."""
        is_open = not text[-1:].isspace()
        unknown = [part for part in self.keep(text) if part.is_unknown]
        if not unknown and self.spells(text):
            return text, is_open
        known = list(text)
        for part in unknown:
            is_word = part.end - part.begin == 1 and text[part.begin].isalnum()
            known[part.begin : part.end] = (UNSPELT if is_word else " ") * (part.end - part.begin)
        words = [(match.end(), self._spelt_word(match[0])) for match in WORDS.finditer("".join(known))]
        ends_so = bool(words) and words[-1][0] == len(text) and text.endswith(words[-1][1] or UNSPELT)
        return " ".join(word for _, word in words if word), is_open and ends_so

    def _spelt_word(self, word: str) -> str:
        """A word without symbols at its edges that no token spells; empty if there are others in it."""
        if self.spells(word):
            return word
        inner = list(dropwhile(lambda one: not self.spells(one), word))
        inner = list(dropwhile(lambda one: not self.spells(one), reversed(inner)))
        core = "".join(reversed(inner))
        return core if core and self.spells(core) else ""

    def _spells(self, text: str) -> bool:
        try:
            spelling = self.task.spell(text)
        except DataError:
            return False
        ends = {0}
        for end in range(1, len(spelling) + 1):
            begins = (begin for begin in range(max(0, end - self._longest), end) if begin in ends)
            if any(spelling[begin:end] in self._spellings for begin in begins):
                ends.add(end)
        return text != UNSPELT and bool(spelling.strip()) and len(spelling) in ends

    @cached_property
    def _spellings(self) -> set[bytes]:
        return set(self.task.spellings() or ())

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._spellings), default=0)


def occurrences(text: str, parts: Iterable[str]) -> list[int]:
    """How often each part is in a text: not within a word, and a single sign not between two, as a hyphen is."""
    words = atoms(text)
    begins, ends = {word.begin for word in words}, {word.end for word in words}

    def is_part(begin: int, end: int) -> bool:
        is_sign = end - begin == 1 and not text[begin].isalnum()
        is_hyphen = is_sign and text[begin - 1 : begin].isalnum() and text[end : end + 1].isalnum()
        return begin in begins and end in ends and not is_hyphen

    return [sum(is_part(*one.span()) for one in re.finditer(re.escape(part.strip()), text)) for part in parts]


def _continued(prefix: str, src: str, kept: Sequence[Part]) -> str:
    """The prefix; if it ends within a kept part of the source, such as a placeholder, with the rest of that."""
    for begin, end in (part[:2] for part in _with_given(kept, src, [prefix]) if not part.is_given):
        part = src[begin:end]
        for n in range(len(part) - 1, 0, -1):
            if prefix.endswith(part[:n]) and (part[:n] == "{" or (n > 1 and not part[:n].isalnum())):
                return prefix + part[n:]
    return prefix


def _with_given(kept: Sequence[Part], src: str, texts: Sequence[str]) -> list[Part]:
    """The kept parts, of which as many are given as the texts contain."""
    names = [src[part.begin : part.end].strip() for part in kept]
    spare = {name: sum(sum(occurrences(text, [name])) for text in texts) for name in names}
    parts: list[Part] = []
    for name, part in zip(names, kept, strict=True):
        parts.append(part._replace(is_given=True) if spare[name] > 0 else part)
        spare[name] -= 1
    return parts
