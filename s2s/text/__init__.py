"""Text with inline markup as an annotation, and its projection onto a translation. Pure Python, without torch."""

from __future__ import annotations

__all__ = ["AnnotatedText", "Link", "Span", "project"]

from s2s.text.alignment import Link
from s2s.text.annotated import AnnotatedText, Span
from s2s.text.projection import project
