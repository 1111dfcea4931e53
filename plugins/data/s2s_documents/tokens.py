"""What every format turns its markup into: a flat sequence of tokens, whose `raw` texts in a row are the document."""

from __future__ import annotations

__all__ = ["Kind", "Token"]

from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """What a token does."""

    TEXT = auto()
    OPEN = auto()
    """Opens an inline element"""
    CLOSE = auto()
    ALONE = auto()
    """Stands alone within a sentence: a line break, an image, a comment"""
    OUTSIDE = auto()
    """Ends a block and begins another"""


class Token(NamedTuple):
    """A piece of the document."""

    kind: Kind
    raw: str
    """As the document writes it"""
    text: str = ""
    """As a reader sees it; of a token that stands alone, what separates the words beside it"""
    name: str = ""
    """Of the element; of a token outside of blocks, what kind of block follows"""
    kept: bool = False
    """Whether it, or all text of the element, stays in the language of the document"""
    tag: str = ""
    """How it is written beside a translated text, if not as before"""

    @property
    def markup(self) -> str:
        """How it is written beside a translated text."""
        return self.tag or self.raw
