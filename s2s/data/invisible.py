"""Characters that are invisible by Unicode's definition (Default_Ignorable_Code_Point) and carry no meaning where they
stand, such as soft hyphens: tokenisers leave them out, so that a word with one is the same word.

Whether one carries meaning is decided by the character before it: joiners do in scripts that use them, and in emoji.
"""

from __future__ import annotations

__all__ = ["IGNORABLE", "KEPT", "PICTURES", "characters", "inner", "visible"]

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e01ef"
)
"""Default_Ignorable_Code_Point of Unicode 16 (DerivedCoreProperties.txt) as ranges of a regular expression, without the
unassigned ones at the end of plane 14"""
JOINED = (
    "\u0620-\u06ff\u0710-\u07ff\u0840-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa"
    "\u1b00-\u1c4f\ua8e0-\ua8ff\ua980-\ua9df\uabc0-\uabff"
)
"""Scripts in which joiners (U+200C, U+200D) choose the form of letters: Arabic to N'Ko, Indic ones, Khmer, Mongolian"""
MONGOLIAN = "\u1820-\u18aa"
"""The script with variation selectors and a vowel separator of its own (U+180B to U+180F)"""
BROKEN = "\u0e01-\u0fbc\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff"
"""Scripts of Asia from India to Tibet that have U+200B where a line may be broken between two words"""
PICTURES = "\u2194-\u21aa\u231a-\u23ff\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"
"""Emoji, which U+FE0F shows in colour and U+200D joins"""
KEPT = (
    (JOINED, "\u200c\u200d"),
    (MONGOLIAN, "\u180b-\u180f"),
    (BROKEN, "\u200b"),
    (PICTURES, "\ufe0f\u200d"),
)
"""Ranges of characters, and the ignorable ones that carry meaning directly behind them"""

BLANKS = " \t\n\r\f\v\x1c-\x1f\x85\xa0\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"
"""White space as in `str.isspace`, and what is as wide as nothing: U+200B, U+2060, marks of the byte order"""

_INNER = re.compile(rf"[^{BLANKS}](?:.*[^{BLANKS}])?", re.DOTALL)
_KEEPS = "|".join(rf"(?<=[{before}])[{kept}]" for before, kept in KEPT)
_MEANINGLESS = re.compile(rf"(?!{_KEEPS}|(?<=[{PICTURES}]\ufe0f)\u200d)[{IGNORABLE}]")


def visible(text: str) -> str:
    """The text without invisible characters that carry no meaning."""
    return text if text.isascii() else _MEANINGLESS.sub("", text)


def inner(text: str) -> tuple[int, int]:
    """Where a text begins and ends without `BLANKS` at its edges; both 0 if nothing remains."""
    match = _INNER.search(text)
    return match.span() if match else (0, 0)


def characters(ranges: str) -> Iterator[str]:
    """The characters of ranges as in `KEPT`."""
    for first, last in re.findall(r"(.)(?:-(.))?", ranges, re.DOTALL):
        yield from map(chr, range(ord(first), ord(last or first) + 1))
