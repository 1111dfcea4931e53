"""Formats of documents: HTML, XML, Markdown, PO, XLIFF, subtitles, Word, PowerPoint, EPUB, plain text.

A format turns the document into tokens (`tokens`), `runs` cuts them into blocks, whose inline tags `folding` makes
spans, and `template` puts outputs back in their places.
"""

from __future__ import annotations

__all__ = ["FORMATS", "UnitConfig", "s2s_register"]

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from s2s import Choice, Registry, hookimpl
from s2s.text import DocumentFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.text import Document


@dataclass(kw_only=True)
class UnitConfig(Choice):
    """Files of translations."""

    retranslate: bool = False
    """Translate units that have a translation as well, not only those without one, and such as are marked to be
    translated again."""


FORMATS = {
    "text": ((".txt",), Choice, "text_format:TextFormat"),
    "html": ((".html", ".htm"), Choice, "markup_formats:HtmlFormat"),
    "xml": ((".xml", ".xhtml", ".svg"), Choice, "markup_formats:XmlFormat"),
    "markdown": ((".md", ".markdown"), Choice, "markdown_format:MarkdownFormat"),
    "po": ((".po",), UnitConfig, "po_format:PoFormat"),
    "xliff": ((".xlf", ".xliff"), UnitConfig, "xliff_format:XliffFormat"),
    "srt": ((".srt",), Choice, "subtitle_formats:SrtFormat"),
    "vtt": ((".vtt",), Choice, "subtitle_formats:VttFormat"),
    "docx": ((".docx",), Choice, "archive_formats:DocxFormat"),
    "pptx": ((".pptx",), Choice, "archive_formats:PptxFormat"),
    "epub": ((".epub",), Choice, "archive_formats:EpubFormat"),
}
"""Name -> the ends of the names of its files, its options, and what reads it"""


class DeferredFormat(DocumentFormat):
    """A format whose reader is imported with its first document: every command with files asks all formats for their
    extensions, and importing the readers took it 0.02 s."""

    def __init__(self, extensions: Sequence[str], reader: str, config: Choice) -> None:
        self.extensions, self.reader, self.config = extensions, reader, config

    def read(self, data: bytes) -> Document:
        module, _, name = self.reader.partition(":")
        reader: DocumentFormat = getattr(import_module(f"s2s_documents.{module}"), name)(self.config)
        return reader.read(data)


@hookimpl
def s2s_register(registry: Registry) -> None:
    for name, (extensions, config, reader) in FORMATS.items():
        registry.add("document_format", name, config, partial(DeferredFormat, extensions, reader))
