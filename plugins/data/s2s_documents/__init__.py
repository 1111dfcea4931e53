"""Formats of documents: HTML, XML, Markdown, PO, XLIFF, subtitles, Word, PowerPoint, EPUB, plain text.

A format turns the document into tokens (`tokens`), `runs` cuts them into blocks, whose inline tags `folding` makes
spans, and `template` puts outputs back in their places.
"""

from __future__ import annotations

__all__ = ["FORMATS", "UnitConfig", "s2s_register"]

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from s2s import Choice, Registry, hookimpl
from s2s.text import DocumentFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    def __init__(self, extensions: Sequence[str], load: Callable[[], type[Any]], config: Choice) -> None:
        self.extensions, self.load, self.config = extensions, load, config

    def read(self, data: bytes) -> Document:
        reader: DocumentFormat = self.load()(self.config)
        return reader.read(data)


class Deferral:  # makes the deferred format of a reader, and is documented as the reader is
    def __init__(self, extensions: Sequence[str], reader: str) -> None:
        self.extensions, self.reader = extensions, reader

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deferral) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.reader)

    def __call__(self, config: Choice) -> DeferredFormat:
        return DeferredFormat(self.extensions, self.load, config)

    def load(self) -> type[Any]:
        """The class of the reader."""
        module, _, name = self.reader.partition(":")
        loaded: type[Any] = getattr(import_module(f"s2s_documents.{module}"), name)
        return loaded

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # a text in other classes
        return self.load().__doc__


@hookimpl
def s2s_register(registry: Registry) -> None:
    for name, (extensions, config, reader) in FORMATS.items():
        registry.add("document_format", name, config, Deferral(extensions, reader))
