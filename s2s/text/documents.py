"""The contract of document formats: bytes as blocks that are translated, and all else, which is kept byte for byte.

They are registered in the group `document_format`.
"""

from __future__ import annotations

__all__ = ["Block", "Document", "DocumentFormat"]

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.text.annotated import AnnotatedText

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Block:
    """A part of a document that is translated by itself: a paragraph, a heading, a cell."""

    source: AnnotatedText
    """Its text with the inline markup as spans, whose openings and closings are as the document writes them"""
    kind: str
    """What it is, in the words of the format, such as h1; @title for an attribute of that name"""


class Document(ABC):
    """A document whose blocks can be replaced."""

    blocks: Sequence[Block]
    """In the order of the document, attributes last"""

    @abstractmethod
    def render(self, outputs: Sequence[AnnotatedText]) -> bytes:
        """The document with an output for each block, every tag of which it has once; all else is unchanged.

        A block whose output equals its source is unchanged as well.
        """


class DocumentFormat(ABC):
    """How documents are read."""

    @abstractmethod
    def read(self, data: bytes) -> Document:
        """The document; raises DataError for bytes that are none of this format, ConfigError for a missing library."""
