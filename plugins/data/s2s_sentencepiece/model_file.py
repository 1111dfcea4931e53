"""What sentencepiece's Python interface lacks: which pieces of a model are fixed, and appending others.

A model is a message of Protocol Buffers: field 1, repeated, is a piece, with its text (1), score (2) and type (3).
"""

from __future__ import annotations

__all__ = ["fields_of", "fixed_pieces", "piece_field"]

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE, TYPE = 1, 3
NORMAL = 1
WIDTHS = {1: 8, 5: 4}
"""Bytes of a value, by wire type"""
VARINT, BYTES = 0, 2


def fixed_pieces(model: bytes) -> list[bool]:
    """By id, whether a piece is never part of a merge or of another piece: special, a symbol of its own, or a byte."""
    pieces = (value for number, value in fields_of(model) if number == PIECE and isinstance(value, bytes))
    return [dict(fields_of(piece)).get(TYPE, NORMAL) != NORMAL for piece in pieces]


def piece_field(piece: str, score: float) -> bytes:
    """A piece as a field of a model; appended to a model, it is its last piece."""
    text = piece.encode()
    record = b"\x0a" + _as_varint(len(text)) + text + b"\x15" + struct.pack("<f", score)
    return b"\x0a" + _as_varint(len(record)) + record


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of every field, in order."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        length, at = _varint(message, at) if wire == BYTES else (WIDTHS[wire], at)
        yield key >> 3, message[at : at + length]
        at += length


def _as_varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at a position, in groups of seven bits, the lowest first, and the position behind it."""
    value = shift = 0
    while message[at] & 0x80:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1
