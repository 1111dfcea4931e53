"""The formats by the names of their files; what reads one is imported for its first document.

Every command looks for the format of its files among them, and most of its files have none.
"""

from __future__ import annotations

__all__ = [
    "DocxFormat",
    "EpubFormat",
    "HtmlFormat",
    "MarkdownFormat",
    "PoFormat",
    "PptxFormat",
    "SrtFormat",
    "TextFormat",
    "VttFormat",
    "XliffFormat",
    "XmlFormat",
]

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from s2s.text import DocumentFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s import Choice
    from s2s.text import Document
    from s2s_documents import UnitConfig


class _Format(DocumentFormat):
    """A format that a function reads."""

    function: ClassVar[str]
    """Its module and name"""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        return self._function()(data)

    def _function(self) -> Callable[..., Document]:
        module, _, name = self.function.partition(":")
        function: Callable[..., Document] = getattr(import_module(f"s2s_documents.{module}"), name)
        return function


class _FormatOfUnits(_Format):
    """A format of texts with their translations."""

    def __init__(self, config: UnitConfig) -> None:
        self.retranslate = config.retranslate

    def read(self, data: bytes) -> Document:
        return self._function()(data, retranslate=self.retranslate)


class TextFormat(_Format):
    """Plain text: a line is a block."""

    extensions = (".txt",)
    function = "text_format:read_text"


class HtmlFormat(_Format):
    """HTML: whole pages and fragments, well-formed or not, in the declared encoding."""

    extensions = (".html", ".htm")
    function = "markup_formats:read_html"


class XmlFormat(_Format):
    """XML: XHTML is read as HTML; in others, an element is inline where text stands beside it."""

    extensions = (".xml", ".xhtml", ".svg")
    function = "markup_formats:read_xml"


class MarkdownFormat(_Format):
    """Markdown, which is translated but for code, front matter, targets of links, and texts of images."""

    extensions = (".md", ".markdown")
    function = "markdown_format:read_markdown"


class SrtFormat(_Format):
    """SubRip: numbered cues."""

    extensions = (".srt",)
    function = "subtitle_formats:read_srt"


class VttFormat(_Format):
    """WebVTT, whose text has references such as &amp;."""

    extensions = (".vtt",)
    function = "subtitle_formats:read_vtt"


class DocxFormat(_Format):
    """Word: body, headers, footers and notes."""

    extensions = (".docx",)
    function = "archive_formats:read_docx"


class PptxFormat(_Format):
    """PowerPoint: slides, their notes, and diagrams."""

    extensions = (".pptx",)
    function = "archive_formats:read_pptx"


class EpubFormat(_Format):
    """EPUB: its pages and its table of contents."""

    extensions = (".epub",)
    function = "archive_formats:read_epub"


class PoFormat(_FormatOfUnits):
    """PO, by translate-toolkit, which keeps the lines of units without a new translation as gettext writes them."""

    extensions = (".po",)
    function = "po_format:read_po"


class XliffFormat(_FormatOfUnits):
    """XLIFF, in the encoding that it declares."""

    extensions = (".xlf", ".xliff")
    function = "xliff_format:read_xliff"
