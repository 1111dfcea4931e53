"""Documents that are archives of XML: Word, PowerPoint, EPUB.

python-docx and python-pptx write every part anew; here all parts but those with text keep their bytes, and in these all
but the runs of translated paragraphs.
"""

from __future__ import annotations

__all__ = ["DocxFormat", "EpubFormat", "PptxFormat"]

import io
import re
import zipfile
from typing import TYPE_CHECKING

from s2s import DataError
from s2s.text import Document, DocumentFormat
from s2s_documents.encodings import decode_xml
from s2s_documents.markup_formats import check_well_formed, xml_parts
from s2s_documents.office_flow import office_parts
from s2s_documents.template import Template

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from s2s import Choice
    from s2s.text import AnnotatedText
    from s2s_documents.template import Part

MAX_BYTES = 1 << 28
"""Of all members, unpacked"""


class ArchiveFormat(DocumentFormat):
    """An archive, some of whose members are documents."""

    translated: re.Pattern[str]
    """Names of the members that are documents"""

    def __init__(self, config: Choice) -> None:
        pass

    def parts(self, text: str) -> Iterable[Part]:
        """The parts of a member."""
        raise NotImplementedError

    def read(self, data: bytes) -> Document:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                if sum(info.file_size for info in archive.infolist()) > MAX_BYTES:
                    raise DataError(f"the archive has more than {MAX_BYTES:,} bytes unpacked")
                members = {info: archive.read(info) for info in archive.infolist()}
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
            raise DataError(f"no {self.extensions[0][1:]} document: {error}") from None
        documents = {
            info: self._member(content) for info, content in members.items() if self.translated.fullmatch(info.filename)
        }
        if not documents:
            raise DataError(f"no {self.extensions[0][1:]} document: the archive has no text")
        return _Archive(data, members, documents)

    def _member(self, content: bytes) -> Template:
        text, encode = decode_xml(content)
        check_well_formed(text)
        return Template(self.parts(text), encode)


class DocxFormat(ArchiveFormat):
    """Word: body, headers, footers and notes."""

    extensions = (".docx",)
    translated = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")

    def parts(self, text: str) -> Iterable[Part]:
        return office_parts(text, "w")


class PptxFormat(ArchiveFormat):
    """PowerPoint: slides, their notes, and diagrams."""

    extensions = (".pptx",)
    translated = re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide|diagrams/data)\d*\.xml")

    def parts(self, text: str) -> Iterable[Part]:
        return office_parts(text, "a")


class EpubFormat(ArchiveFormat):
    """EPUB: its pages and its table of contents."""

    extensions = (".epub",)
    translated = re.compile(r".*\.(?:xhtml|html|htm|ncx)")

    def parts(self, text: str) -> Iterable[Part]:
        return xml_parts(text)


class _Archive(Document):
    """An archive whose members keep their order, times, and kind of compression."""

    def __init__(
        self, data: bytes, members: Mapping[zipfile.ZipInfo, bytes], documents: Mapping[zipfile.ZipInfo, Template]
    ) -> None:
        self.data, self.members, self.documents = data, members, documents
        self.blocks = [block for document in documents.values() for block in document.blocks]

    def render(self, outputs: Sequence[AnnotatedText]) -> bytes:
        if list(outputs) == [block.source for block in self.blocks]:
            return self.data
        target, at = io.BytesIO(), 0
        with zipfile.ZipFile(target, "w") as archive:
            for info, content in self.members.items():
                document = self.documents.get(info)
                n_blocks = len(document.blocks) if document else 0
                archive.writestr(info, document.render(outputs[at : at + n_blocks]) if document else content)
                at += n_blocks
        return target.getvalue()
