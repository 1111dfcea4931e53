"""Text with inline markup as an annotation, its projection onto a translation, and the contract of documents.

Pure Python, without torch.
"""

from __future__ import annotations

__all__ = ["UNSPACED", "AnnotatedText", "Block", "Document", "DocumentFormat", "Span"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.text.annotated import AnnotatedText, Span
    from s2s.text.documents import Block, Document, DocumentFormat
    from s2s.text.words import UNSPACED

__getattr__ = lazy_names(__name__, "annotated", "words", "documents")
