"""Formats of documents: HTML, XML, Markdown, PO, XLIFF, subtitles, Word, PowerPoint, EPUB, plain text.

A format turns the document into tokens (`tokens`), `runs` cuts them into blocks, whose inline tags `folding` makes
spans, and `template` puts outputs back in their places.
"""

from __future__ import annotations

__all__ = ["UnitConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import Choice, Registry, hookimpl


@dataclass(kw_only=True)
class UnitConfig(Choice):
    """Files of translations."""

    retranslate: bool = False
    """Translate units that have a translation as well, not only those without one, and such as are marked to be
    translated again."""


FORMATS = {
    "text": "text_format:TextFormat",
    "html": "markup_formats:HtmlFormat",
    "xml": "markup_formats:XmlFormat",
    "markdown": "markdown_format:MarkdownFormat",
    "srt": "subtitle_formats:SrtFormat",
    "vtt": "subtitle_formats:VttFormat",
    "docx": "archive_formats:DocxFormat",
    "pptx": "archive_formats:PptxFormat",
    "epub": "archive_formats:EpubFormat",
}
FORMATS_OF_UNITS = {"po": "po_format:PoFormat", "xliff": "xliff_format:XliffFormat"}


@hookimpl
def s2s_register(registry: Registry) -> None:
    for name, factory in FORMATS.items():
        registry.add("document_format", name, Choice, f"s2s_documents.{factory}")
    for name, factory in FORMATS_OF_UNITS.items():
        registry.add("document_format", name, UnitConfig, f"s2s_documents.{factory}")
