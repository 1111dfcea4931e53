"""Documents written to exhaust memory, time or the stack, or to read other files: refused in one line, or read at once.

What would take minutes if the time grew with the square of the length has no clock of its own.
"""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from harness.documents import render, texts, translated
from s2s.errors import DataError
from s2s.registry import Choice
from s2s_documents import UnitConfig, archive_formats
from s2s_documents.archive_formats import DocxFormat, EpubFormat
from s2s_documents.markup_formats import HtmlFormat, XmlFormat
from s2s_documents.message_flow import message_flow
from s2s_documents.po_format import PoFormat
from s2s_documents.subtitle_formats import SrtFormat
from s2s_documents.text_format import TextFormat
from s2s_documents.tokens import Kind
from s2s_documents.xliff_format import XliffFormat

PAGE = "<w:document><w:p><w:r><w:t>A dog</w:t></w:r></w:p></w:document>"


def archive(text: str | bytes, name: str = "word/document.xml", kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", kind) as file:
        file.writestr("first.bin", "x")
        file.writestr(name, text)
    return target.getvalue()


def with_size(data: bytes, size: int) -> bytes:
    """The archive, whose directory says that the last member has this size."""
    at = data.rindex(b"PK\1\2") + 24
    return data[:at] + struct.pack("<L", size) + data[at + 4 :]


class TestArchives:
    """Whatever their directory says."""

    @pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_a_compression_that_is_unpacked_as_a_whole_is_refused(self, kind: int) -> None:
        with pytest.raises(DataError, match=r"'first\.bin': compression \d+ is not read"):
            DocxFormat(Choice()).read(archive(PAGE, kind=kind))

    @pytest.mark.parametrize("size", [10, None, (1 << 32) - 2])
    def test_a_bomb_is_refused_before_it_is_unpacked(self, size: int | None) -> None:
        data = archive(bytes(20 << 20))
        with pytest.raises(DataError, match=r"'word/document\.xml' (?:is too large|cannot be unpacked: Bad CRC)"):
            DocxFormat(Choice()).read(data if size is None else with_size(data, size))

    def test_all_members_have_a_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(archive_formats, "MAX_BYTES", len(PAGE) + 1)
        data = archive(PAGE)
        assert DocxFormat(Choice()).read(data).blocks
        with pytest.raises(DataError, match="too large"):
            DocxFormat(Choice()).read(archive(PAGE + " "))

    def test_a_broken_member_is_named(self) -> None:
        data = bytearray(archive(PAGE * 20))
        at = data.index(b"word/document.xml") + len("word/document.xml")
        data[at : at + 8] = b"\xff" * 8
        with pytest.raises(DataError, match=r"'word/document\.xml' cannot be unpacked: Error -3"):
            DocxFormat(Choice()).read(bytes(data))
        with pytest.raises(DataError, match=r"word/document\.xml: no well-formed XML: line 1"):
            DocxFormat(Choice()).read(archive("<a>"))

    def test_names_in_no_encoding_are_refused(self) -> None:
        data = archive(PAGE, "word/é.xml").replace("é".encode(), b"\xff\xff")
        with pytest.raises(DataError, match=r"no docx document: .*codec"):
            DocxFormat(Choice()).read(data)

    def test_the_body_may_have_a_number(self) -> None:
        assert len(DocxFormat(Choice()).read(archive(PAGE, "word/document2.xml")).blocks) == 1

    def test_deeply_nested_paragraphs(self) -> None:
        text = "<w:document>" + "<w:p><w:r><w:t>A dog</w:t></w:r>" * 500 + "</w:p>" * 500 + "</w:document>"
        data = archive(text)
        document = DocxFormat(Choice()).read(data)
        assert len(document.blocks) == 500
        assert document.render([block.source for block in document.blocks]) == data

    def test_many_elements_around_a_paragraph(self) -> None:
        text = f"<w:p>{'<w:x>' * 20_000}{PAGE}{'</w:x>' * 20_000}</w:p>"
        assert len(DocxFormat(Choice()).read(archive(text)).blocks) == 1


LAUGHS = "<!DOCTYPE a [<!ENTITY a0 'ha'>{}]>".format(
    "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
)
OUTSIDE = "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/hostname'><!ENTITY % y SYSTEM 'file:///etc/hostname'>%y;]>"


@pytest.mark.parametrize(("doctype", "entity"), [(LAUGHS, "&a11;"), (OUTSIDE, "&x;")])
class TestEntities:
    """They are neither expanded nor read from elsewhere."""

    def test_in_xml(self, doctype: str, entity: str) -> None:
        source = f"{doctype}<a>A dog {entity} barks</a>"
        assert texts(XmlFormat, source) == [f"A dog {entity} barks"]
        assert render(XmlFormat, source) == f"{doctype}<a>A DOG {entity} BARKS</a>"

    def test_in_xliff(self, doctype: str, entity: str) -> None:
        unit = f"<trans-unit><source>A dog {entity}</source></trans-unit>"
        (block,) = XliffFormat(UnitConfig()).read(f"{doctype}<xliff><file>{unit}</file></xliff>".encode()).blocks
        assert block.source.text == f"A dog {entity}"

    def test_in_archives(self, doctype: str, entity: str) -> None:
        page = PAGE.replace("dog", f"dog {entity}")
        (block,) = DocxFormat(Choice()).read(archive(doctype + page)).blocks
        assert block.source.text == f"A dog {entity}"
        page = f'{doctype}<html xmlns="http://www.w3.org/1999/xhtml"><p>A dog {entity}</p></html>'
        (block,) = EpubFormat(Choice()).read(archive(page, "a.xhtml")).blocks
        assert block.source.text == f"A dog {entity}"

    def test_in_messages(self, doctype: str, entity: str) -> None:
        pytest.importorskip("translate", reason="the extra `documents` is not installed")
        data = f'msgid "{doctype} <b>A dog {entity}</b>"\nmsgstr ""\n'
        blocks = PoFormat(UnitConfig()).read(data.encode()).blocks
        assert any(block.source.text.endswith(f"A dog {entity}") for block in blocks)


def test_entities_in_attributes_are_refused() -> None:
    """The standard has them expanded; expat stops it."""
    with pytest.raises(DataError, match="no well-formed XML"):
        XmlFormat(Choice()).read(f"{LAUGHS}<a b='&a11;'>A dog</a>".encode())


@pytest.mark.parametrize("number", ["99999999", "0", "7", "1" * 5000])
def test_a_plural_has_few_forms(number: str) -> None:
    pytest.importorskip("translate", reason="the extra `documents` is not installed")
    header = f'msgid ""\nmsgstr "Plural-Forms: nplurals={number}; plural=0;\\n"'
    data = f'{header}\n\nmsgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\n'
    with pytest.raises(DataError, match="a plural has 1 to 6 forms"):
        PoFormat(UnitConfig()).read(data.encode())


@pytest.mark.parametrize("name", ["zlib", "base64", "undefined", "punycode", "idna", "rot13"])
def test_codecs_that_are_no_encodings_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"which is no encoding of text|not \w+: byte"):
        HtmlFormat(Choice()).read(f"<meta charset={name}><p>A dog".encode())


def test_two_members_of_one_name_are_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        file.writestr("word/document.xml", PAGE)
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("word/document.xml", PAGE)
    with pytest.raises(DataError, match="two members of the archive have one name"):
        DocxFormat(Choice()).read(target.getvalue())


@pytest.mark.parametrize("name", ["zlib", "hex", "rot13", "base64"])
def test_codecs_of_a_po_file_that_are_no_encodings_are_refused(name: str) -> None:
    pytest.importorskip("translate", reason="the extra `documents` is not installed")
    data = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={name}\\n"\n\nmsgid "a"\nmsgstr ""\n'
    with pytest.raises(DataError, match=r"no PO file: .*is not a text encoding"):
        PoFormat(UnitConfig()).read(data.encode())


def test_advice_is_what_the_format_can_do() -> None:
    with pytest.raises(DataError, match=r"byte 0; convert it to UTF-8$"):
        TextFormat(Choice()).read(b"\xff dog")
    with pytest.raises(DataError, match=r"byte 0; declare its encoding, or convert it$"):
        HtmlFormat(Choice()).read(b"\xff dog")


@pytest.mark.parametrize("n", [65, 500, 3000])
def test_elements_nested_deep_stay_where_they_are(n: int) -> None:
    page = "<p>one " + "<b>two " * n + "three" + "</b> four" * n + "</p>"
    expected = page.upper().replace("<P>", "<p>").replace("</P>", "</p>").replace("<B>", "<b>").replace("</B>", "</b>")
    assert render(HtmlFormat, page) == expected


def test_elements_nested_as_deep_as_is_allowed_are_one_sentence() -> None:
    page = "<p>one " + "<b>two " * 64 + "three" + "</b> four" * 64 + "</p>"
    (block,) = HtmlFormat(Choice()).read(page.encode()).blocks
    assert len(translated(block.source).spans) == 64


@pytest.mark.parametrize("page", ["<div>" * 60_000, "<b>" * 20_000 + "</p>" * 20_000, "<ul><li>x" * 9000])
def test_many_open_elements_are_read_in_a_moment(page: str) -> None:
    HtmlFormat(Choice()).read(page.encode())


def test_long_messages_and_cues_are_read_in_a_moment() -> None:
    assert all(token.kind is Kind.TEXT and not token.kept for token in message_flow("%" + "0" * 60_000))
    SrtFormat(Choice()).read(b"-->" * 100_000)
    cue = "1\n00:00:01,000 --> 00:00:02,000\n" + "a word\n" * 30_000
    document = SrtFormat(Choice()).read(cue.encode())
    (output,) = [translated(block.source.__class__("a word " * 30_000)) for block in document.blocks]
    assert document.render([output])
