"""Bytes as text and back, in the encoding that a document declares."""

from __future__ import annotations

__all__ = ["decode", "decode_html", "decode_xml"]

import codecs
import re
from functools import partial
from typing import TYPE_CHECKING

from s2s import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
META = re.compile(rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
DECLARATION = re.compile(rb"""<\?xml\b[^>]*?\bencoding\s*=\s*["']([\w.:-]+)""")
NO_ENCODINGS = ("idna", "punycode")
"""Codecs of the names of hosts, whose time grows with the square of the length"""
DECLARE = "declare its encoding, or convert it"
LATIN = ("iso8859-1", "ascii")
"""Codecs under whose names HTML means windows-1252"""


def decode_html(data: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The text of a page, and the way back; raises DataError for bytes that are not in the declared encoding."""
    declared = META.search(data[:4096]) or DECLARATION.match(data)
    name = declared[1].decode() if declared else ""
    codec = _codec(name) if name else "utf-8"
    return decode(data, "cp1252" if codec in LATIN else codec, "xmlcharrefreplace", DECLARE)


def decode_xml(data: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The text of an XML document, and the way back; raises DataError for bytes that are not in its encoding."""
    declared = DECLARATION.match(data.removeprefix(codecs.BOM_UTF8))
    return decode(data, _codec(declared[1].decode()) if declared else "utf-8", "xmlcharrefreplace", DECLARE)


def decode(
    data: bytes, codec: str = "utf-8", errors: str = "strict", advice: str = "convert it to UTF-8"
) -> tuple[str, Callable[[str], bytes]]:
    """The text, and the way back; a mark of the byte order says more than a declaration, and stays.

    errors: what becomes of letters of outputs that the encoding does not have; advice: against bytes that are not in
    the encoding, for which this raises DataError.
    """
    codec = next((by_mark for mark, by_mark in BOMS if data.startswith(mark)), codec)
    try:
        text = data.decode(codec)
        encoded = text.encode(codec, errors)
    except UnicodeDecodeError as error:
        raise DataError(f"the document is not {codec}: byte {error.start:,}; {advice}") from None
    except (LookupError, UnicodeError):
        raise DataError(f"the document declares {codec}, which is no encoding of text") from None
    if encoded != data:
        raise DataError(f"the document would not keep its bytes in {codec}; convert it to UTF-8")
    return text, partial(_encode, codec, errors)


def _encode(codec: str, errors: str, text: str) -> bytes:
    return text.encode(codec, errors)


def _codec(name: str) -> str:
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        raise DataError(f"the document declares an encoding that Python does not have: {name}") from None
    if codec in NO_ENCODINGS:
        raise DataError(f"the document declares {codec}, which is no encoding of text")
    return codec
