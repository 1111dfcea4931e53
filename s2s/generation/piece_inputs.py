"""The pieces of a text as inputs, each with the constraints of the text that concern it."""

from __future__ import annotations

__all__ = ["piece_inputs"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.generation.candidates import Input
    from s2s.generation.text_layout import Piece, TextLayout


def piece_inputs(one: Input, pieces: Sequence[Piece], layout: TextLayout) -> list[Input]:
    """An input for each piece: the first has the prefix, and a phrase belongs to the one piece in which it occurs.

    Raises DataError for a prefix of several sentences, and for a phrase that might belong to any of several pieces.
    """
    if len(pieces) == 1:
        text = pieces[0].text
        return [one if text == one.src else replace(one, src=text)]
    if one.prefix and len(layout.pieces(one.prefix, unit="sentence")) > 1:
        raise DataError(
            f"prefix {one.prefix[:60]!r} has several sentences, and the input is decoded in {len(pieces)} parts; give "
            "split=false, or each sentence as an input of its own"
        )
    inputs = [replace(one, src=piece.text, prefix="", phrases=()) for piece in pieces]
    inputs[0] = replace(inputs[0], prefix=one.prefix)
    for phrase in filter(None, one.phrases):
        n = _piece_of(phrase, pieces)
        inputs[n] = replace(inputs[n], phrases=(*inputs[n].phrases, phrase))
    return inputs


def _piece_of(phrase: str, pieces: Sequence[Piece]) -> int:
    """The index of the only piece in which the phrase occurs, such as a name that is to be kept."""
    holding = [n for n, piece in enumerate(pieces) if phrase in piece.text]
    if len(holding) != 1:
        raise DataError(
            f"phrase {phrase[:60]!r}: the input is decoded in {len(pieces)} parts, and the phrase might belong to any "
            "of several; give split=false, or each sentence as an input of its own"
        )
    return holding[0]
