"""Formats of documents: HTML, XML, Markdown, PO, XLIFF, subtitles, Word, PowerPoint, EPUB, plain text.

A format turns the document into tokens (`tokens`), `runs` cuts them into blocks, whose inline tags `folding` makes
spans, and `template` puts outputs back in their places.
"""

from __future__ import annotations

__all__ = ["FORMATS", "UnitConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import Choice, Registry, hookimpl


@dataclass(kw_only=True)
class UnitConfig(Choice):
    """Files of translations."""

    retranslate: bool = False
    """Translate units that have a translation as well, not only those without one, and such as are marked to be
    translated again."""


FORMATS = (
    ("text", Choice, "text_format:TextFormat", [".txt"]),
    ("html", Choice, "markup_formats:HtmlFormat", [".html", ".htm"]),
    ("xml", Choice, "markup_formats:XmlFormat", [".xml", ".xhtml", ".svg"]),
    ("markdown", Choice, "markdown_format:MarkdownFormat", [".md", ".markdown"]),
    ("po", UnitConfig, "po_format:PoFormat", [".po"]),
    ("xliff", UnitConfig, "xliff_format:XliffFormat", [".xlf", ".xliff"]),
    ("srt", Choice, "subtitle_formats:SrtFormat", [".srt"]),
    ("vtt", Choice, "subtitle_formats:VttFormat", [".vtt"]),
    ("docx", Choice, "archive_formats:DocxFormat", [".docx"]),
    ("pptx", Choice, "archive_formats:PptxFormat", [".pptx"]),
    ("epub", Choice, "archive_formats:EpubFormat", [".epub"]),
)
"""Name, options, reader and the ends of the names of files: every command with files asks for these, and importing the
readers takes 0.02 s."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    for name, config, reader, extensions in FORMATS:
        registry.add("document_format", name, config, f"s2s_documents.{reader}", extensions=extensions)
