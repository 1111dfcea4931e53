"""Lines and files that no program should have written."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from harness.tiny_runs import WORDS

if TYPE_CHECKING:
    import random

ODD_LINES = [
    *(
        b"",
        b" ",
        b"\t",
        b"\r",
        b"\x00",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
    ),
    *(b"\x0b", b"\x0c", b"a\rb", b"a\tb\tc", b"{", b'{"src": 1}', b'{"src": "a", "prefix": 5}', b"[" * 2000, b"NaN"),
    *(b"\xe2\x96\x81", b"<s> </s> <pad> <unk>", b"\xf0\x9f\x98\x80" * 50, b"a" * 5000, b"a " * 3000, b"%s {} \\n"),
    *(
        "e\u0301\u0301\u0301".encode() * 40,
        "\u202eabc\u202c".encode(),
        "\ufeff\u200b\u00a0".encode(),
        "ﷺ".encode() * 30,
    ),
]


TEXT = [line for line in ODD_LINES if b"\0" not in line and line.decode(errors="ignore").encode() == line]
"""Those that nothing needs to refuse"""


def odd_file(draw: random.Random) -> bytes:
    """Lines, ordinary ones and odd ones: up to 9 of all kinds, or up to 60 that are text and no JSON.

    At times cut off, packed, or not text at all.
    """
    if draw.random() < 0.5:
        return b"".join(b"w %s\n" % _line(draw, TEXT) for _ in range(draw.randint(20, 60)))
    lines = [_line(draw, ODD_LINES) for _ in range(draw.randint(0, 9))]
    data = draw.choice((b"\n", b"\n", b"\r\n")).join(lines) + draw.choice((b"\n", b""))
    if draw.random() < 0.1:
        data = draw.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b")) + data
    if draw.random() < 0.05:
        data = gzip.compress(data)[: draw.randrange(30) or None]
    if draw.random() < 0.05:
        data = draw.randbytes(draw.randrange(300))
    return data


def _line(draw: random.Random, odd: list[bytes]) -> bytes:
    words = [word.encode() for word in draw.choices(list(WORDS), k=draw.randint(1, 6))]
    if draw.random() < 0.5:
        words.insert(draw.randrange(len(words) + 1), draw.choice(odd))
    elif draw.random() < 0.3:
        return draw.choice(odd)
    return b" ".join(words)
