"""What a model reads of a text, without some of its parts, which are put back into the output."""

from __future__ import annotations

__all__ = ["SourceText"]

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Self

from s2s.generation.kept_parts import Part
from s2s.text import AnnotatedText, Span
from s2s.text.words import CLOSING, OPENING, is_unspaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from s2s.generation.inputs import Note
    from s2s.text.annotated import Link


@dataclass(frozen=True)
class SourceText:
    """A text, and what is read of it."""

    original: str
    read: str
    origins: tuple[int, ...]
    """For each character that is read its place in the original"""
    taken_out: tuple[Part, ...] = ()
    beside: str = ""
    """What is read that stands beside the text"""

    @classmethod
    def without(
        cls,
        text: str,
        parts: Iterable[Part],
        visible: Callable[[str], str] = str,
        n_tokens: Callable[[str], int] = lambda _: 1,
    ) -> Self:
        """The text without some parts, each with the blank on one of its sides, and without what is not `visible`.

        Between letters a part becomes a blank, unless both sides together have fewer tokens (`n_tokens`) as one word.
        """
        parts = _joined(text, parts)
        if not parts and (shown := visible(text)) == text:
            return cls(text, text, tuple(range(len(text))))
        places, blanks, end = list[int](), set[int](), 0
        next_begins = [*(part.begin for part in parts[1:]), len(text)]
        for number, part in enumerate(parts):
            before, end = text[end : part.begin], part.end
            places += range(part.begin - len(before), part.begin)
            while places and text[places[-1]].isspace() and text[end : end + 1] in CLOSING:
                places.pop()
            if not places or text[places[-1]].isspace() or text[places[-1]] in OPENING:
                while text[end : end + 1].isspace():
                    end += 1
            elif _is_blank(before, text[end : next_begins[number]], n_tokens):
                places.append(part.begin)
                blanks.add(part.begin)
        places += range(end, len(text))
        read = "".join(" " if place in blanks else text[place] for place in places)
        return cls(text, shown := visible(read), tuple(_remaining(places, read, shown)), parts)

    def annotated(self, notes: Sequence[Note]) -> Self:
        """The same text with what is read beside it."""
        if not notes:
            return self
        read, origins, end = "", list[int](), 0
        for begin, place, note in notes:
            read += self.read[end:place] + note
            meant = self.origins[begin:place] or self.origins[place : place + 1]
            origins += self.origins[end:place]
            origins += (meant[n * len(meant) // len(note)] for n in range(len(note)))
            end = place
        rest, beside = self.read[end:], "".join(note for _, _, note in notes)
        return replace(self, read=read + rest, origins=(*origins, *self.origins[end:]), beside=beside)

    @property
    def has_words(self) -> bool:
        """Whether anything is left to translate."""
        return any(map(str.isalnum, self.read))

    def restored(self, output: str, links: Iterable[Link]) -> tuple[str, list[Link]]:
        """The output with all parts that were taken out and are not given, and the links between the original and it.

        links: between what was read and the output.
        """
        links = [(*place, tb, te) for sb, se, tb, te in links for place in self._in_original(sb, se)]
        missing = [(n, part) for n, part in enumerate(self.taken_out) if not part.is_given]
        if not missing:
            return output, links
        from s2s.text.projection import project  # with modules that most texts do without, 5 ms

        whole = project(AnnotatedText(self.original, _spans(missing)), output, links)
        kept = [span for span in whole.spans if span.keep]
        moved = _moved(links, output, whole.text, kept)
        copies = [(*self.taken_out[int(span.opening)][:2], span.begin, span.end) for span in kept]
        return whole.text, sorted({*moved, *copies}, key=lambda link: link[2:])

    def _in_original(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The characters of the original that were read as these, without the parts between them, and blanks."""
        first = begin
        for n in range(begin, end):
            if n + 1 == end or self.origins[n + 1] - self.origins[n] not in (0, 1) or self.read[n].isspace():
                if self.read[first : n + 1].strip():
                    yield self.origins[first], self.origins[n] + 1
                first = n + 1


def _joined(text: str, parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, as one where nothing but blanks stands between them, if all or none are given, but not across an edge
    of a pair; a pair that encloses nothing else is none."""
    joined: list[Part] = []
    for part in parts:
        while joined and _may_join(joined[-1], part) and not text[joined[-1].end : part.begin].strip():
            before = joined.pop()
            part = part._replace(begin=before.begin, pair=before.pair + part.pair)
        joined.append(part)
    return tuple(joined)


def _may_join(first: Part, second: Part) -> bool:
    return second.pair <= 0 <= first.pair and first.is_given == second.is_given


def _spans(parts: Sequence[tuple[int, Part]]) -> tuple[Span, ...]:
    """Numbered parts as elements whose text is kept, and each pair as one around all that it encloses."""
    kept = [Span(part.begin, part.end, str(n), keep=True) for n, part in parts]
    begins = {part.pair: part.begin for _, part in parts if part.pair > 0}
    ends = ((part.pair, part.end) for _, part in parts if part.pair < 0)
    around = [Span(begins[-pair], end) for pair, end in ends if -pair in begins]
    return tuple(sorted([*around, *kept], key=lambda span: (span.begin, -span.end)))


def _is_blank(before: str, after: str, n_tokens: Callable[[str], int]) -> bool:
    """Whether the letters on both sides of a part are words of their own, of a script with blanks.

    before, after: the text back to the part before, and up to the next one.
    """
    one = "".join(takewhile(_is_in_word, reversed(before)))[::-1]
    other = "".join(takewhile(_is_in_word, after))
    if not one or not other or is_unspaced(one[-1]) or is_unspaced(other[0]):
        return False
    return n_tokens(f"{one} {other}") <= n_tokens(one + other)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _remaining(places: Sequence[int], read: str, shown: str) -> list[int]:
    """The places of the characters of `read` that are shown."""
    if len(read) == len(shown):
        return list(places)
    remaining, characters = [], iter(zip(places, read, strict=True))
    for character in shown:
        remaining.append(next(place for place, other in characters if other == character))
    return remaining


def _moved(links: Iterable[Link], output: str, whole: str, inserted: Iterable[Span]) -> list[Link]:
    """Links to an output, as links to the text into which parts have been inserted; none if it had one of them."""
    old = [n for n, character in enumerate(output) if not character.isspace()]
    others = {n for span in inserted for n in range(span.begin, span.end)}
    new = [n for n, character in enumerate(whole) if not character.isspace() and n not in others]
    if len(old) != len(new):
        return []
    ranges = ((sb, se, bisect_left(old, tb), bisect_left(old, te)) for sb, se, tb, te in links)
    return [(sb, se, new[i], new[j - 1] + 1) for sb, se, i, j in ranges if i < j]
