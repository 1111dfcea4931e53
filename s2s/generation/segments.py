"""The parts of inputs that are decoded by themselves."""

from __future__ import annotations

__all__ = ["Segment", "SourcePart", "unbroken"]

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from s2s.decoding.batch_constraint import SentenceConstraint
from s2s.generation.inputs import Revision
from s2s.generation.kept_parts import Part
from s2s.generation.literals import NOTHING, Required, occurrences
from s2s.generation.source_text import SourceText
from s2s.generation.text_layout import Piece
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s.generation.candidates import Input
    from s2s.generation.inputs import Note


NAME = "\ufffc"
"""U+FFFC, which stands for what is no text, and is in no word"""


@dataclass(frozen=True)
class Segment:
    """An input, or a part of one that is decoded by itself."""

    src: str
    ids: list[int]
    """Without eos; empty: there is nothing to search"""
    constraint: SentenceConstraint | None = None
    starting_tokens: Sequence[int] = ()
    """See `SourceSentence.starting_tokens`"""
    before: str = ""
    """Text before it, back to the previous segment, that is copied to the output"""
    after: str = ""
    """Text behind the last segment of an input"""
    source: SourceText | None = None
    """What the model reads of it; None: all"""
    align: bool = False
    """Whether links between it and its output are needed"""
    required: Required = NOTHING
    """What its output has whatever the model can write"""
    left_in: tuple[str, ...] = ()
    """Parts that an output must copy"""
    instead: Segment | None = None
    """What is decoded instead if the output lacks one of `left_in`: the same without these parts"""

    revision: Revision | None = None
    """What else is required of its output"""

    def again(self, hyp: str) -> Segment | None:
        """What is searched next because the output `hyp` lacks something; None: the output stays."""
        if self.instead is not None and self.lacks(hyp):
            return self.instead
        constraint = self.revision(hyp) if self.revision else None
        return replace(self, constraint=constraint, revision=None) if constraint else None

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.source.read if self.source else self.src

    def n_read(self, n_tokens: Callable[[str], int]) -> int:
        """How many tokens are read of it, without those beside its text."""
        return len(self.ids) - (n_tokens(self.source.beside) if self.source and self.source.beside else 0)

    def lacks(self, hyp: str) -> bool:
        """Whether an output is without one of the parts that it must copy, or has it another number of times."""
        return bool(self.left_in) and occurrences(hyp, self.left_in) != occurrences(self.src, self.left_in)


class SourcePart(NamedTuple):
    """A piece of a text, and the input that it is."""

    piece: Piece
    source: Input
    kept: tuple[Part, ...]
    """The parts of the piece that are kept"""
    text: SourceText
    """What is decoded"""
    example: Example
    """The same as the task encodes it"""
    rest: SourceText | None = None
    """What is decoded if the output lacks a part that `text` has"""
    required: Required = NOTHING

    @classmethod
    def build(
        cls,
        piece: Piece,
        source: Input,
        kept: Iterable[Part],
        visible: Callable[[str], str],
        n_tokens: Callable[[str], int],
        required: Required = NOTHING,
    ) -> SourcePart:
        """The part: without symbols that no token spells, and without all kept parts where nothing else is a word."""
        kept = tuple(kept)
        unknown = tuple(part for part in kept if not part.is_decoded)
        rest = SourceText.without(piece.text, kept, visible, n_tokens)
        if required.is_complete or (kept and not rest.has_words):
            unknown = (Part(0, len(piece.text)),)
        text = SourceText.without(piece.text, unknown, visible, n_tokens) if unknown or kept else rest
        example = Example(text.read, fields=source.fields)
        other = rest if rest.has_words and len(unknown) < len(kept) else None
        return cls(piece, source, kept, text, example, other, required)

    def annotated(self, notes: Callable[[str], Sequence[Note]]) -> SourcePart:
        """The part with what is read beside its text. notes: of a text without kept names."""
        text = self.text.annotated(notes(self._without_names(self.text)))
        rest = self.rest and self.rest.annotated(notes(self._without_names(self.rest)))
        if text is self.text and rest is self.rest:
            return self
        return self._replace(text=text, rest=rest, example=replace(self.example, src=text.read))

    @property
    def translated(self) -> Input:
        """The input without kept names."""
        if not self.kept and self.source.src == self.piece.text:
            return self.source
        return replace(self.source, src=self._without_names(SourceText.without(self.piece.text, ())))

    def _without_names(self, text: SourceText) -> str:
        """What is read, with NAME for each character of a kept part with letters, whose words are not translated."""
        if not self.kept:
            return text.read
        parts = ((part, self.piece.text[part.begin : part.end]) for part in self.kept)
        names = {n for part, kept in parts if any(map(str.isalpha, kept)) for n in range(part.begin, part.end)}
        return "".join(NAME if n in names else one for n, one in zip(text.origins, text.read, strict=True))

    @property
    def left_in(self) -> tuple[str, ...]:
        """The texts of the kept parts that are decoded."""
        kept = (part for part in self.kept if self.rest and part.is_decoded)
        return tuple(dict.fromkeys(self.piece.text[part.begin : part.end] for part in kept))


def unbroken(
    text: str, kept: Sequence[Part], pieces_of: Callable[[str], Iterable[Piece]], *, trims: bool = True
) -> Iterator[tuple[Piece, list[Part]]]:
    """The pieces of a text, each with the kept parts in it; none of these is in two, or decides where a piece ends.

    trims: what is not decoded at the edges of a piece is no part of it.
    """
    if not kept:
        yield from ((piece, []) for piece in pieces_of(text))
        return
    ranges, end = list[tuple[int, int]](), 0
    begins, ends = [part.begin for part in kept], [part.end for part in kept]
    for piece in pieces_of(_opaque(text, kept)):
        begin = end + len(piece.before)
        is_cut = any(bisect_right(ends, place) < bisect_left(begins, place) for place in (end, begin))
        end = begin + len(piece.text)
        ranges.append((ranges.pop()[0] if ranges and is_cut else begin, end))
    at = 0
    for begin, end in ranges:
        inside = kept[bisect_left(begins, begin) : bisect_right(ends, end)]
        is_last = end == ranges[-1][1]
        if trims:
            begin, end, inside = _trimmed(text, begin, end, inside)
        after = text[end:] if is_last else ""
        yield Piece(text[at:begin], text[begin:end], after), [part.behind(-begin) for part in inside]
        at = end


def _trimmed(text: str, begin: int, end: int, parts: Sequence[Part]) -> tuple[int, int, Sequence[Part]]:
    """A piece, given by its characters and parts, without the parts at its edges that are not decoded: all of them, if
    others remain, but a part of a pair only with the other one."""
    n_first = _n_at_edge(parts, lambda n: text[parts[n - 1].end if n else begin : parts[n].begin])
    last = parts[n_first:][::-1]
    n_last = _n_at_edge(last, lambda n: text[last[n].end : last[n - 1].begin if n else end])
    while True:
        edges = {part.pair for part in [*parts[:n_first], *last[:n_last]]}
        is_cut = [bool(part.pair) and -part.pair not in edges for part in parts]
        first = next((n for n in range(n_first) if is_cut[n]), n_first)
        n_kept = next((n for n in range(n_last) if is_cut[len(parts) - 1 - n]), n_last)
        if (first, n_kept) == (n_first, n_last):
            break
        n_first, n_last = first, n_kept
    inner = text[parts[n_first - 1].end if n_first else begin : last[n_last - 1].begin if n_last else end]
    if not inner.strip():
        return begin, end, parts
    begin = (parts[n_first - 1].end if n_first else begin) + len(inner) - len(inner.lstrip())
    return begin, begin + len(inner.strip()), parts[n_first : len(parts) - n_last]


def _n_at_edge(parts: Sequence[Part], gap: Callable[[int], str]) -> int:
    """How many parts are at an edge and not decoded. gap: the text between one and that before it, or the edge."""
    return next((n for n, part in enumerate(parts) if part.is_decoded or gap(n).strip()), len(parts))


def _opaque(text: str, kept: Iterable[Part]) -> str:
    """The text with a name in place of each part with letters or digits, whose punctuation ends no sentence, or with
    symbols, if it belongs to none."""
    pieces, at = list[str](), 0
    for part in kept:
        begin, end = part.begin, part.end
        if end - begin > 1 and (part.is_apart or any(map(str.isalpha, text[begin:end]))):
            pieces += [text[at:begin], ("•" if part.is_apart else "Q") * (end - begin)]
            at = end
    return "".join([*pieces, text[at:]])
