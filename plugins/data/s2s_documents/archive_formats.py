"""Documents that are archives of XML: Word, PowerPoint, EPUB.

python-docx and python-pptx write every part anew; here all parts but those with text keep their bytes, and in these all
but the runs of translated paragraphs.
"""

from __future__ import annotations

__all__ = ["DocxFormat", "EpubFormat", "PptxFormat"]

import io
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from s2s import DataError
from s2s.text import Document, DocumentFormat
from s2s_documents.encodings import decode_xml
from s2s_documents.markup_formats import check_well_formed, xml_template
from s2s_documents.office_paragraphs import office_parts
from s2s_documents.template import Template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from s2s import Choice
    from s2s.text import AnnotatedText

MAX_BYTES = 1 << 28
"""Of all members, unpacked"""
MAX_BYTES_TRANSLATED = 1 << 24
"""Of a member that is translated"""
CHUNK = 1 << 16
"""Bytes that are unpacked at once"""
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Those whose reader unpacks no more at once than it is asked for"""
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    UnicodeDecodeError,
    RuntimeError,  # encrypted; also NotImplementedError
    EOFError,
    OSError,
)


class ArchiveFormat(DocumentFormat):
    """An archive, some of whose members are documents."""

    name: str
    """What errors call it"""
    translated: re.Pattern[str]
    """Names of the members that are documents"""

    def __init__(self, config: Choice) -> None:
        pass

    def template(self, text: str, encode: Callable[[str], bytes]) -> Template:
        """A member."""
        raise NotImplementedError

    def read(self, data: bytes) -> Document:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = self._members(archive)
        except UNREADABLE as error:
            raise DataError(f"no {self.name} document: {error}") from None
        documents = {
            info: self._member(info.filename, content)
            for info, content in members.items()
            if self.translated.fullmatch(info.filename)
        }
        if not documents:
            raise DataError(f"no {self.name} document: the archive has no text")
        return _Archive(data, members, documents)

    def _members(self, archive: zipfile.ZipFile) -> dict[zipfile.ZipInfo, bytes]:
        """The members unpacked; raises DataError if they are too large."""
        members, n_left = dict[zipfile.ZipInfo, bytes](), MAX_BYTES
        if len(names := archive.namelist()) != len(set(names)):
            raise DataError(f"no {self.name} document: two members of the archive have one name")
        for info in archive.infolist():
            is_translated = self.translated.fullmatch(info.filename)
            members[info] = _unpacked(archive, info, min(n_left, MAX_BYTES_TRANSLATED) if is_translated else n_left)
            n_left -= len(members[info])
        return members

    def _member(self, name: str, content: bytes) -> Template:
        try:
            text, encode = decode_xml(content)
            check_well_formed(text)
            return self.template(text, encode)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    """A member; raises DataError if it has more bytes than the limit, whatever the archive says of its size."""
    if info.compress_type not in COMPRESSIONS:
        raise DataError(f"{info.filename!r}: compression {info.compress_type} is not read; deflate is")
    content = bytearray()
    try:
        with archive.open(info) as member:
            while len(content) <= limit and (chunk := member.read(CHUNK)):
                content += chunk
    except UNREADABLE as error:
        raise DataError(f"{info.filename!r} cannot be unpacked: {error}") from None
    if len(content) > limit:
        raise DataError(f"{info.filename!r} is too large: more than {limit:,} bytes unpacked")
    return bytes(content)


class DocxFormat(ArchiveFormat):
    """Word: body, headers, footers and notes."""

    name = "docx"
    translated = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")

    def template(self, text: str, encode: Callable[[str], bytes]) -> Template:
        return Template(office_parts(text, "w"), encode)


class PptxFormat(ArchiveFormat):
    """PowerPoint: slides, their notes, and diagrams."""

    name = "pptx"
    translated = re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide|diagrams/data)\d*\.xml")

    def template(self, text: str, encode: Callable[[str], bytes]) -> Template:
        return Template(office_parts(text, "a"), encode)


class EpubFormat(ArchiveFormat):
    """EPUB: its pages and its table of contents."""

    name = "epub"
    translated = re.compile(r".*\.(?:xhtml|html|htm|ncx)")

    def template(self, text: str, encode: Callable[[str], bytes]) -> Template:
        return xml_template(text, encode)


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
