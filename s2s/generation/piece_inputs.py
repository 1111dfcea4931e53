"""The pieces of a text as inputs, each with the constraints of the text that concern it."""

from __future__ import annotations

__all__ = ["piece_inputs"]

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from s2s.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.generation.candidates import Input
    from s2s.generation.text_layout import Piece, TextLayout


def piece_inputs(one: Input, pieces: Sequence[Piece], layout: TextLayout) -> list[Input]:
    """An input for each piece: sentences of the prefix belong to the first ones, of which the last is yet to be
    completed, and a phrase to a piece in which it occurs.

    Raises DataError for a phrase that might belong to any of several pieces.
    """
    if len(pieces) == 1:
        text = pieces[0].text
        return [one if text == one.src else replace(one, src=text)]
    inputs = [replace(one, src=piece.text, prefix="", phrases=()) for piece in pieces]
    for n, prefix in enumerate(_prefixes(one.prefix, len(pieces), layout)):
        inputs[n] = replace(inputs[n], prefix=prefix)
    for phrase in filter(None, one.phrases):
        n = _piece_of(phrase, pieces)
        inputs[n] = replace(inputs[n], phrases=(*inputs[n].phrases, phrase))
    return inputs


def _prefixes(prefix: str, most: int, layout: TextLayout) -> list[str]:
    """The sentences of a prefix, each with what stands behind it; all the others in the last of these."""
    if not prefix:
        return []
    sentences = layout.pieces(prefix, unit="sentence")
    starts = [*accumulate(len(piece.before + piece.text) for piece in sentences[:-1])]
    begins = [n + len(piece.before) for n, piece in zip(starts, sentences[1:], strict=True)]
    edges = [0, *begins[: most - 1], len(prefix)]
    return [prefix[begin:end] for begin, end in pairwise(edges)]


def _piece_of(phrase: str, pieces: Sequence[Piece]) -> int:
    """The index of the first piece in which the phrase occurs, as a name does that is to be kept, or of the only one
    with words."""
    possible = [n for n, piece in enumerate(pieces) if phrase in piece.text]
    possible = possible or [n for n, piece in enumerate(pieces) if any(map(str.isalpha, piece.text))]
    if len(possible) == 1 or phrase in pieces[possible[0]].text:
        return possible[0]
    raise DataError(
        f"phrase {phrase[:60]!r}: the input is decoded in {len(pieces)} parts, and the phrase might belong to any "
        "of them; give split=false, or each sentence as an input of its own"
    )
