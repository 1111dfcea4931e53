"""Noise that alters both sides of a pair alike, so that outputs are written as inputs are."""

from __future__ import annotations

__all__ = ["Addresses", "Emoji", "Punctuation", "TitleCase", "UpperCase"]

import re
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING

from s2s.data import noise

if TYPE_CHECKING:
    from random import Random

STOPS = ".!?…。！？।۔؟"
WORD_BEGIN = re.compile(r"(?<!\w)(?<!\w['’])[^\W\d_]")
APOSTROPHES = str.maketrans("'’ʼ", "’''")
QUOTES = (('"', '"'), ("“", "”"), ("„", "“"), ("«", "»"), ("'", "'"))
EMOJI = "😀😂😊😍😭😎😉😅🙏👍👎👏💪🎉🔥✨⭐❤💔✅❌⚠☀☕⚽🎂🎁📌📎📱💡🚀🏠🚗✈🐶🐱🌍🌹🍎🍺"
HOSTS = ("example.org", "www.example.com", "docs.example.net", "example.com")
LETTERS = ascii_lowercase + digits


class UpperCase(noise.Noise):
    """THE WHOLE PAIR IN CAPITALS."""

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """Both sides in upper case."""
        return src.upper(), tgt.upper()


class TitleCase(noise.Noise):
    """Every Word With A Capital."""

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """Both sides in title case."""
        return _title(src), _title(tgt)


class Punctuation(noise.Noise):
    """Texts without a stop at the end, in quotes, or with the other kind of apostrophe in the source."""

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """One of the three, whichever is possible."""
        way = draw.randrange(3)
        if way == 0 and (other := src.translate(APOSTROPHES)) != src:
            return other, tgt
        if way == 1 and src[-1:] in STOPS and tgt[-1:] in STOPS:
            return src.rstrip(STOPS), tgt.rstrip(STOPS)
        before, behind = draw.choice(QUOTES)
        return f"{before}{src}{behind}", f"{before}{tgt}{behind}"


class Emoji(noise.Noise):
    """Common emoji at the beginning or the end."""

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """The same ones on both sides, at the same edge."""
        some = "".join(draw.choices(EMOJI, k=draw.choice((1, 1, 2))))
        return _at_edge(src, tgt, some, draw)


class Addresses(noise.Noise):
    """An address of the web at the beginning or the end."""

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """The same on both sides, at the same edge."""
        parts = ["".join(draw.choices(LETTERS, k=draw.randint(2, 8))) for _ in range(draw.randint(0, 3))]
        return _at_edge(src, tgt, "/".join([f"https://{draw.choice(HOSTS)}", *parts]), draw)


def _title(text: str) -> str:
    return WORD_BEGIN.sub(lambda match: match[0].title(), text)


def _at_edge(src: str, tgt: str, text: str, draw: Random) -> tuple[str, str]:
    """Both sides with a text before them, or behind them."""
    if draw.random() < 0.5:
        return f"{text} {src}", f"{text} {tgt}"
    return f"{src} {text}", f"{tgt} {text}"
