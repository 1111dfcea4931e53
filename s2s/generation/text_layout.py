"""Running text as pieces that a model reads, and all that stands between them, which is copied to the output."""

from __future__ import annotations

__all__ = ["Piece", "TextLayout", "Unit", "join_pieces", "text_layout", "with_blanks"]

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from s2s.compose.conversion import choice_factory
from s2s.data.invisible import inner
from s2s.data.segmenter import Segmenter
from s2s.data.sentence_rules import RuleSegmenter
from s2s.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s.config import GenerateConfig
    from s2s.data.source_shape import SourceShape
    from s2s.plugin import Plugins
    from s2s.task import Task

Unit = Literal["sentence", "line", "text"]
"""What a model reads at once"""


class Piece(NamedTuple):
    """A part of a text, without white space at its edges; empty in a blank text."""

    before: str
    """What stands between the previous piece, or the beginning of the text, and this one"""
    text: str
    after: str = ""
    """What stands between the last piece and the end of the text; empty for the others"""


@dataclass(frozen=True)
class TextLayout:
    """Takes texts apart; `join_pieces` is the inverse."""

    segmenter: Callable[[str], Segmenter]
    """That of a language; empty: an unknown one"""
    unit: Unit

    def pieces(self, text: str, language: str = "", unit: Unit | None = None) -> list[Piece]:
        """The pieces of a text, at least one: "".join(before + text + after) of all is the text.

        unit: None: that of this layout.
        """
        pieces, end = [], 0
        for begin, behind in self._spans(text, language, unit or self.unit):
            pieces.append(Piece(text[end:begin], text[begin:behind]))
            end = behind
        if not pieces:
            return [Piece(text, "")]
        pieces[-1] = pieces[-1]._replace(after=text[end:])
        return pieces

    def _spans(self, text: str, language: str, unit: Unit) -> Iterator[tuple[int, int]]:
        """Where the pieces begin and end. Lines end where Unicode breaks them, such as after U+2028."""
        at = 0
        for line in [text] if unit == "text" else text.splitlines(keepends=True):
            if unit == "sentence":
                yield from ((at + begin, at + end) for begin, end in self.segmenter(language).sentences(line))
            elif any(edges := inner(line)):
                yield at + edges[0], at + edges[1]
            at += len(line)


def text_layout(
    config: GenerateConfig, task: Task, sources: SourceShape | None, plugins: Plugins | None
) -> TextLayout | None:
    """The layout that the options name; None for a task whose inputs are no running text."""
    if not task.running_text:
        return None
    segmenter: Callable[[str], Segmenter] = partial(RuleSegmenter, Choice())
    if plugins is not None:
        segmenter = choice_factory(config.segmenter, "segmenter", plugins.registry, "segmenter")
    return TextLayout(cache(segmenter), _unit(config, sources))


def _unit(config: GenerateConfig, sources: SourceShape | None) -> Unit:
    """What the model reads at once. Without a measurement sentences: a model of longer texts then lacks some context,
    whereas a model of sentences loses most of a longer text."""
    if config.split == "auto" and sources and not sources.is_sentences:
        return "line" if sources.is_lines else "text"
    return "sentence" if config.split else "text"


def join_pieces(pieces: Iterable[tuple[str, str, str]]) -> str:
    """The text of pieces before, text, after, as `with_blanks` gives them."""
    return "".join(chain.from_iterable(with_blanks(pieces)))


def with_blanks(pieces: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """The pieces before, text, after. Where nothing stands between two, a script with blanks gets one."""
    last = ""
    for before, text, after in pieces:
        needs_blank = last and text and not before and not last.isspace() and not _is_wide(last)
        piece = (" " if needs_blank else before, text, after)
        yield piece
        last = "".join(piece)[-1:] or last


def _is_wide(letter: str) -> bool:
    """Whether it belongs to a script without blanks between sentences."""
    return unicodedata.east_asian_width(letter) in "WF"
