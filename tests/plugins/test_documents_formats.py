"""Markdown, PO, XLIFF, subtitles, Word, PowerPoint, EPUB and plain text: what is translated, and what is kept."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from harness.documents import render, texts, translated
from s2s.errors import ConfigError, DataError
from s2s.plugin import load_plugins
from s2s.registry import Choice
from s2s.text import Document
from s2s_documents import FORMATS, UnitConfig
from s2s_documents.accelerators import without_accelerator
from s2s_documents.archive_formats import DocxFormat, EpubFormat, PptxFormat
from s2s_documents.markup_formats import check_well_formed
from s2s_documents.po_format import PoFormat
from s2s_documents.subtitle_formats import SrtFormat, VttFormat
from s2s_documents.text_format import TextFormat
from s2s_documents.xliff_format import XliffFormat

if TYPE_CHECKING:
    from s2s.text import DocumentFormat


def test_every_format_has_extensions_of_its_own() -> None:
    registry = load_plugins().registry
    names = registry.names("document_format")
    assert {"html", "text", "xml", "markdown", "po", "xliff", "srt", "vtt", "docx", "pptx", "epub"} <= set(names)
    extensions = [one for name in names for one in registry.get("document_format", name).extensions]
    assert len(set(extensions)) == len(extensions)
    assert {".html", ".htm", ".md", ".docx"} <= set(extensions)


def test_the_format_of_a_name_is_found_without_importing_a_reader() -> None:
    """Every command with files asks for it."""
    code = (
        "import sys; from s2s.generation.markup_documents import format_by_extension as form\n"
        "from s2s.plugin import load_plugins; registry = load_plugins().registry\n"
        "assert [form(name, registry) for name in ('a.HTM', 'a.epub', 'a.out')] == ['html', 'epub', '']\n"
        "assert not [name for name in sys.modules if name.startswith('s2s_documents.')]"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


@pytest.mark.parametrize("name", [name for name, *_ in FORMATS])
def test_every_format_has_a_reader(name: str) -> None:
    form: DocumentFormat = load_plugins().registry.build_default("document_format", name)
    try:
        assert isinstance(form.read(b"No document.\n"), Document)
    except DataError:
        assert name not in ("text", "html", "markdown", "srt", "vtt"), "which take all bytes of UTF-8"
    except ConfigError:
        pytest.skip("the extra `documents` is not installed")


def test_the_lines_of_a_text_are_blocks() -> None:
    text = "\ufeffThe dog\r\n\r\n\t a cat \n3.50\nlast\u2028line"
    assert texts(TextFormat, text) == ["The dog", "a cat", "last", "line"]
    assert render(TextFormat, text) == "\ufeffTHE DOG\r\n\r\n\t A CAT \n3.50\nLAST\u2028LINE"


MARKDOWN = """---
title: A dog
---
# The **old** dog ##

A *cat* and `code |x` with [a link](http://x.y "t"), [ref], [see][ref] and <http://a.b/c>  
next line\\
of \\*text\\* &amp; 2 * 3 snake_case ![alt](i.png) done[^1].

> quoted text
> goes **on
> here** now
lazy

- [ ] a task with ***both*** words
- [x] ~~other~~

1. one

   two para

| a a | a |
|---|---|
| x \\| y `c\\|d` **bold** | x \\| y |
|  | a |

```
code here
```

    indented code

<div class="x">
An <b>html</b> block
</div>

Setext head
===========

text <b>with html</b><br>inline <!-- c --> end

[ref]: http://example.org "Title"
"""  # noqa: W291


class TestMarkdown:
    """Against a table of what each construct becomes."""

    @pytest.fixture
    def markdown(self) -> type[DocumentFormat]:
        pytest.importorskip("markdown_it", reason="the extra `documents` is not installed")
        from s2s_documents.markdown_format import MarkdownFormat

        return MarkdownFormat

    @pytest.mark.parametrize("line_end", ["\n", "\r\n"])
    def test_marks_stay_around_their_words(self, markdown: type[DocumentFormat], line_end: str) -> None:
        changes = {
            "The **old** dog": "THE **OLD** DOG",
            'A *cat* and `code |x` with [a link](http://x.y "t"), [ref], [see][ref] and <http://a.b/c>  \n'
            "next line\\\nof \\*text\\* &amp; 2 * 3 snake_case ![alt](i.png) done[^1].": (
                'A *CAT* AND `code |x` WITH [A LINK](http://x.y "t"), [REF][ref], [SEE][ref] AND <http://a.b/c>   \n'
                "NEXT LINE \\\nOF \\*TEXT\\* & 2 * 3 SNAKE_CASE ![alt](i.png)DONE[^1]."
            ),
            "quoted text\n> goes **on\n> here** now\nlazy": "QUOTED TEXT GOES **ON HERE** NOW LAZY",
            "a task with ***both*** words": "A TASK WITH ***BOTH*** WORDS",
            "~~other~~": "~~OTHER~~",
            "1. one": "1. ONE",
            "two para": "TWO PARA",
            "| a a | a |": "| A A | A |",
            "x \\| y `c\\|d` **bold** | x \\| y": "X \\| Y `c\\|d` **BOLD** | X \\| Y",
            "|  | a |": "|  | A |",
            "An <b>html</b> block": "AN <b>HTML</b> BLOCK",
            "Setext head": "SETEXT HEAD",
            "text <b>with html</b><br>inline <!-- c --> end": "TEXT <b>WITH HTML</b> <br>INLINE <!-- c -->END",
        }
        expected = MARKDOWN
        for before, after in changes.items():
            assert expected.count(before) == 1
            expected = expected.replace(before, after)
        output = render(markdown, MARKDOWN.replace("\n", line_end))
        assert output == expected.replace("\n", line_end)

    def test_a_sentence_backwards_keeps_all_marks(self, markdown: type[DocumentFormat]) -> None:
        source = "See [the *old* dog](a.html) and `x` or **two\nbig __cats__** now."
        expected = "NOW. **__CATS__ BIG TWO** OR `x` AND [DOG *OLD* THE](a.html) SEE"
        assert render(markdown, source, backwards=True) == expected

    def test_html_that_ends_earlier_for_browsers_stands_alone(self, markdown: type[DocumentFormat]) -> None:
        source = "one <?php a > b ?> two <!-- a --!> b --> three <a href=http://x.org/>four</a>"
        expected = "ONE <?php a > b ?>TWO <!-- a --!> b -->THREE <a href=http://x.org/>FOUR</a>"
        assert texts(markdown, source) == ["one two three four"]
        assert render(markdown, source) == expected

    def test_bars_and_notes_in_a_cell(self, markdown: type[DocumentFormat]) -> None:
        source = "| a |\n|---|\n| x \\| y[^1] z |\n"
        assert render(markdown, source) == "| A |\n|---|\n| X \\| Y[^1] Z |\n"

    @pytest.mark.parametrize(
        "text", ["# a", "- a", "1. a", "*a*", "a_b _c_", "[a](b)", "<b>", "&amp;", "`a`", "> a", "~~a~~"]
    )
    def test_a_translation_is_no_markup(self, markdown: type[DocumentFormat], text: str) -> None:
        from markdown_it import MarkdownIt

        document = markdown(Choice()).read(b"word")  # type: ignore[call-arg]
        written = document.render([document.blocks[0].source.__class__(text)]).decode()
        (block,) = (
            token for token in MarkdownIt("commonmark").enable("strikethrough").parse(written) if token.children
        )
        assert [child.type for child in block.children or []] in (["text"], [])
        assert block.children[0].content == text  # type: ignore[index]


PO = """# Comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n != 1);\\n"

#: file.c:12
msgid "The dog"
msgstr ""

#, fuzzy
#| msgid "Old"
msgid "The cat\\n"
msgstr "Die alte Katze"

#, c-format
msgid "%d file was <b>lost</b> by {name}"
msgid_plural "%d files were <b>lost</b> at 100%"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgctxt "menu"
msgid "Open"
msgstr "Öffnen"

#~ msgid "old"
#~ msgstr ""
"""


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        (":::note Title\nthe dog\n:::\n", ":::note Title\nTHE DOG\n:::\n"),
        ("the cat\n:::{.x}\nthe dog\n\na dog\n:::\nthe cat\n", "THE CAT\n:::{.x}\nTHE DOG\n\nA DOG\n:::\nTHE CAT\n"),
        ('!!! note "x"\n    the dog\n', '!!! note "x"\n    THE DOG\n'),
        ("> [!NOTE]\n> the dog\n", "> [!NOTE]\n> THE DOG\n"),
        ("a $x*y*z_1$ dog\n\n$$\na = b\n$$\n", "A $x*y*z_1$ DOG\n\n$$\na = b\n$$\n"),
        ("it costs $5 and $6\n", "IT COSTS $5 AND $6\n"),
        ("see `$a` and `$b$`\n", "SEE `$a` AND `$b$`\n"),
        ("a[^1] dog\n\n[^1]: the note\n", "A[^1] DOG\n\n[^1]: THE NOTE\n"),
        ("# the dog {#dog .x}\n", "# THE DOG {#dog .x}\n"),
        ("{% if x %}\n{{ page.x }} the dog\n", "{% if x %} {{ page.x }} THE DOG\n"),
        ("dog\n: the definition\n", "DOG\n: THE DEFINITION\n"),
        ("- [ ] the dog\r\n- [x] a cat", "- [ ] THE DOG\r\n- [x] A CAT"),
    ],
)
def test_of_markdown_as_it_is_extended_text_alone_is_translated(source: str, kept: str) -> None:
    pytest.importorskip("markdown_it", reason="the extra `documents` is not installed")
    from s2s_documents.markdown_format import MarkdownFormat

    assert render(MarkdownFormat, source) == kept


class TestPo:
    """Units with and without a translation."""

    @pytest.fixture(autouse=True)
    def _library(self) -> None:
        pytest.importorskip("translate", reason="the extra `documents` is not installed")

    def test_units_without_a_translation_get_one(self) -> None:
        expected = PO.replace('"The dog"\nmsgstr ""', '"The dog"\nmsgstr "DOG THE"')
        expected = expected.replace("#, fuzzy\n", "").replace('"Die alte Katze"', '"CAT THE\\n"')
        singular, plural = "{name} BY <b>LOST</b> WAS FILE %d", "100% AT <b>LOST</b> WERE FILES %d"
        for n, form in enumerate([singular, plural, plural]):
            expected = expected.replace(f'msgstr[{n}] ""', f'msgstr[{n}] "{form}"')
        document = PoFormat(UnitConfig()).read(PO.encode())
        outputs = [translated(block.source) for block in document.blocks]
        assert document.render(outputs).decode() == expected

    def test_a_template_has_two_forms(self) -> None:
        document = PoFormat(UnitConfig()).read(PO.replace("nplurals=3", "nplurals=INTEGER").encode())
        assert sum("files were" in block.source.text for block in document.blocks) == 1

    def test_all_units_on_request(self) -> None:
        document = PoFormat(UnitConfig(retranslate=True)).read(PO.encode())
        assert "Open" in [block.source.text for block in document.blocks]

    @pytest.mark.parametrize("data", [b'msgid "a\nmsgstr x', b'#, fuzzy\nmsgid "a"\nmsgid_plural "b"\n'])
    def test_what_is_no_po_is_refused(self, data: bytes) -> None:
        with pytest.raises(DataError, match="no PO file"):
            PoFormat(UnitConfig()).read(data)


XLIFF = """<?xml version='1.0' encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en" datatype='plaintext'><body>
  <trans-unit id="1">
    <source>The <g id="1">old</g> dog<x id="2"/> &amp; <bpt id="3">&lt;b></bpt>cat<ept id="3">&lt;/b></ept></source>
  </trans-unit>
  <trans-unit id="2"><source>Done</source><target>Fertig</target></trans-unit>
  <trans-unit id="3">
    <source>By <mrk mtype="protected">A &amp; B</mrk></source><target state='new'/>
    <alt-trans><target>x</target></alt-trans>
  </trans-unit>
  <trans-unit id="4" translate="no"><source>Never</source></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f">
<unit id="1"><segment state="initial">
<source>A <pc id="1">big <ph id="2"/></pc> dog <sc id="3"/>is<ec startRef="3"/> it</source>
</segment><ignorable><source> </source></ignorable></unit>
<unit id="2" translate="no"><segment><source>No dog</source></segment></unit></file></xliff>"""


def xliff(text: str, **options: Any) -> str:
    document = XliffFormat(UnitConfig(**options)).read(text.encode())
    output = document.render([translated(block.source) for block in document.blocks]).decode()
    check_well_formed(output)
    return output


def test_units_of_xliff_get_a_target() -> None:
    pair, last = '<bpt id="3">&lt;b></bpt>CAT<ept id="3">&lt;/b></ept>', '<g id="1">OLD</g> THE'
    target = f'\n    <target>{pair} &amp; DOG<x id="2"/> {last}</target>'
    expected = XLIFF.replace("</ept></source>", f"</ept></source>{target}")
    kept = "<target state='translated'><mrk mtype=\"protected\">A &amp; B</mrk> BY</target>"
    assert xliff(XLIFF) == expected.replace("<target state='new'/>", kept)
    assert "<target>DONE</target>" in xliff(XLIFF, retranslate=True)


def test_segments_of_xliff_2_get_a_target() -> None:
    target = '<target>IT <sc id="3"/>IS<ec startRef="3"/> DOG <pc id="1">BIG<ph id="2"/></pc> A</target>'
    expected = XLIFF_2.replace("it</source>", f"it</source>\n{target}").replace('state="initial"', 'state="translated"')
    assert xliff(XLIFF_2) == expected


def test_prefixes_of_xliff_are_kept() -> None:
    text = XLIFF_2.replace("<", "<x:").replace("<x:/", "</x:")
    expected = XLIFF_2.replace('"initial"', '"translated"').replace("it</source>", "it</source>\n<target/>")
    target = '<target>IT <sc id="3"/>IS<ec startRef="3"/> DOG <pc id="1">BIG<ph id="2"/></pc> A</target>'
    expected = expected.replace("<target/>", target).replace("<", "<x:").replace("<x:/", "</x:")
    assert xliff(text.replace("<x:xliff", '<x:xliff xmlns:x="u"')) == expected.replace(
        "<x:xliff", '<x:xliff xmlns:x="u"'
    )


@pytest.mark.parametrize("state", ["final", "signed-off", "new"])
def test_no_new_translation_is_approved(state: str) -> None:
    unit = f"<trans-unit approved='yes' note=\" state='x'\"><source>a</source><target state = \"{state}\">b</target>"
    text = f"<xliff><file>{unit}</trans-unit></file></xliff>"
    expected = text.replace("'yes'", "'no'").replace(f'"{state}"', '"translated"').replace(">b<", ">A<")
    assert xliff(text, retranslate=True) == expected


def test_other_xml_is_no_xliff() -> None:
    with pytest.raises(DataError, match="no XLIFF"):
        XliffFormat(UnitConfig()).read(b"<a/>")


SRT = """1\r
00:00:01,000 --> 00:00:02,000\r
The <i>old dog</i> barks\r
and sleeps a long time\r
\r
2\r
00:00:03,000 --> 00:00:04,000\r
{\\an8}- Hi there.\r
- Hello & bye.\r
"""
VTT = """WEBVTT - title

NOTE a note

1
00:01.000 --> 00:02.000 align:left
<v Fred>The <b>dog</b> &amp; <00:01.500>cat bark</v>
"""


def test_the_lines_of_a_cue_are_one_text_that_is_wrapped_again() -> None:
    assert texts(SrtFormat, SRT) == ["The old dog barks and sleeps a long time", "Hi there.", "Hello & bye."]
    expected = SRT.replace("The <i>old dog</i> barks\r\nand", "THE <i>OLD DOG</i> BARKS AND\r\n")
    expected = expected.replace("\r\n sleeps a long time", "\r\nSLEEPS A LONG TIME").replace("Hi there", "HI THERE")
    assert render(SrtFormat, SRT) == expected.replace("Hello & bye", "HELLO & BYE")
    document = SrtFormat(Choice()).read(SRT.encode())
    sources = [block.source for block in document.blocks]
    long = sources[0].__class__(" ".join(["word"] * 20))
    cue = document.render([long, *sources[1:]]).decode().split("\r\n")[2:5]
    assert " ".join(cue) == long.text
    assert max(map(len, cue)) <= 42


def test_webvtt_has_references_and_times_within_cues() -> None:
    assert texts(VttFormat, VTT) == ["The dog & cat bark"]
    expected = VTT.replace("The <b>dog</b>", "THE <b>DOG</b>").replace("cat bark", "CAT BARK")
    assert render(VttFormat, VTT) == expected


def archive(members: dict[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return target.getvalue()


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def translated_archive(format_type: type[DocumentFormat], data: bytes) -> bytes:
    document = format_type(Choice()).read(data)  # type: ignore[call-arg]
    assert document.render([block.source for block in document.blocks]) == data
    output = document.render([translated(block.source) for block in document.blocks])
    assert list(members(output)) == list(members(data))
    return output


def test_formats_of_word_stay_with_their_words() -> None:
    docx = pytest.importorskip("docx", reason="python-docx is not installed")
    file = docx.Document()
    paragraph = file.add_paragraph("A ")
    paragraph.add_run("bold cat").bold = True
    paragraph.add_run(" runs over ")
    paragraph.add_run("the hills").italic = True
    paragraph.add_run(" now.")
    file.add_table(1, 2).cell(0, 0).text = "one dog"
    data = io.BytesIO()
    file.save(data)
    output = translated_archive(DocxFormat, data.getvalue())
    changed = {name for name, content in members(output).items() if content != members(data.getvalue())[name]}
    assert changed == {"word/document.xml"}
    read = docx.Document(io.BytesIO(output))
    runs = [(run.text, run.bold, run.italic) for run in read.paragraphs[0].runs]
    assert runs == [
        ("NOW. ", None, None),
        ("HILLS THE", None, True),
        (" OVER RUNS ", None, None),
        ("CAT BOLD", True, None),
        (" A", None, None),
    ]
    assert [cell.text for cell in read.tables[0].row_cells(0)] == ["DOG ONE", ""]


WORD = (
    '<w:document xmlns:w="w" xmlns:r="r"><w:body><w:p><w:pPr><w:x/></w:pPr><w:r><w:t>See </w:t></w:r>'
    '<w:proofErr w:type="x"/><w:hyperlink r:id="rId1"><w:r><w:rPr><w:u/></w:rPr><w:t>the link</w:t></w:r></w:hyperlink>'
    '<w:r><w:t xml:space="preserve"> on page </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r>'
    '<w:r><w:instrText> PAGEREF x </w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r>'
    '<w:r><w:t>12</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
    '<w:r><w:t> &amp; more</w:t><w:footnoteReference w:id="2"/></w:r></w:p>\n'
    "<w:p><w:r><w:t>box</w:t></w:r><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>inner text</w:t></w:r></w:p>"
    "</w:txbxContent></w:pict></w:r><w:r><w:t>3</w:t><w:br/></w:r></w:p><w:p/></w:body></w:document>"
)


def test_links_fields_notes_and_boxes_of_word_are_kept() -> None:
    output = translated_archive(DocxFormat, archive({"a": "x", "word/document.xml": WORD}))
    text = members(output)["word/document.xml"].decode()
    check_well_formed(text)
    field = WORD[WORD.index('<w:r><w:fldChar w:fldCharType="begin"') : WORD.index("<w:r><w:t>12")]
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    assert text.startswith(WORD[: WORD.index("<w:r><w:t>See")] + run.format("MORE &amp; ") + field + run.format("12"))
    linked = '<w:r><w:rPr><w:u/></w:rPr><w:t xml:space="preserve">LINK THE</w:t></w:r>'
    assert f'<w:hyperlink r:id="rId1">{linked}</w:hyperlink>' in text
    assert f"<w:txbxContent><w:p>{run.format('TEXT INNER')}</w:p></w:txbxContent>" in text
    assert text.endswith("<w:r><w:t>3</w:t><w:br/></w:r></w:p><w:p/></w:body></w:document>"), "without text, as it was"


@pytest.mark.parametrize(("properties", "is_kept"), [("<w:text/>", False), ("<w:dropDownList/>", True)])
def test_content_controls_within_a_sentence(properties: str, is_kept: bool) -> None:
    control = f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{{}}</w:sdtContent></w:sdt>"
    run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    page = "<w:document><w:p>{}{}{}</w:p></w:document>"
    old = page.format(run.format("The "), control.format(run.format("old dog")), run.format(" barks"))
    data = translated_archive(DocxFormat, archive({"word/document.xml": old}))
    text = members(data)["word/document.xml"].decode()
    check_well_formed(text)
    assert control.format(run.format("old dog" if is_kept else "DOG OLD")) in text
    assert text.endswith(
        "BARKS THE</w:t></w:r></w:p></w:document>" if is_kept else " THE</w:t></w:r></w:p></w:document>"
    )


def test_formats_of_powerpoint_stay_with_their_words() -> None:
    pptx = pytest.importorskip("pptx", reason="python-pptx is not installed")
    file = pptx.Presentation()
    slide = file.slides.add_slide(file.slide_layouts[1])
    slide.shapes.title.text = "The old dog"
    paragraph = slide.placeholders[1].text_frame.paragraphs[0]
    for text, bold in (("A ", None), ("bold cat", True), (" runs away", None)):
        run = paragraph.add_run()
        run.text, run.font.bold = text, bold
    data = io.BytesIO()
    file.save(data)
    read = pptx.Presentation(io.BytesIO(translated_archive(PptxFormat, data.getvalue())))
    title, body = read.slides[0].placeholders
    assert title.text_frame.text == "DOG OLD THE"
    runs = [(run.text, run.font.bold) for run in body.text_frame.paragraphs[0].runs]
    assert runs == [("AWAY RUNS ", None), ("CAT BOLD", True), (" A", None)]


def test_the_pages_of_a_book_are_translated() -> None:
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>The <b>dog</b></p></body></html>'
    data = archive({"mimetype": "application/epub+zip", "a.opf": "<p>The dog</p>", "text/a.xhtml": page})
    output = members(translated_archive(EpubFormat, data))
    assert output == {**members(data), "text/a.xhtml": page.replace("The <b>dog</b>", "<b>DOG</b> THE").encode()}


@pytest.mark.parametrize("data", [b"", b"PK\3\4 no archive", archive({"a": "b"})])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="no docx document"):
        DocxFormat(Choice()).read(data)


@pytest.mark.parametrize(
    ("message", "plain"),
    [
        ("&File", "File"), ("_Open %s", "Open %s"), ("~Close", "Close"), ("E&xit", "Exit"),
        ("Save &As...", "Save As..."),
        ("Show _hidden files", "Show hidden files"), ("<b>_Open</b>", "<b>Open</b>"), ("a && b &c", "a && b c"),
        ("ファイル(&F)", "ファイル"),
    ],
)  # fmt: skip
def test_an_accelerator_is_no_part_of_a_message_and_is_put_back(message: str, plain: str) -> None:
    text, accelerator = without_accelerator(message)
    assert text == plain
    assert accelerator is not None
    assert accelerator.mark in message
    assert accelerator.letter in message
    for target, expected in (
        (f"Zug {accelerator.letter.upper()}ab", f"Zug {accelerator.mark}{accelerator.letter.upper()}ab"),
        ("%s 1 zz", f"%s 1 {accelerator.mark}zz"),
        ("文件...", f"文件({accelerator.mark}{accelerator.letter.upper()})..."),
        ("%s 5", "%s 5"),
    ):
        assert accelerator.put_into(target) == expected


@pytest.mark.parametrize(
    "message",
    ["AT&T", "R&D budget", "R & D", "snake_case", "see foo_bar", "__init__", "&amp; x", "&1", "_a _b",
     "x?b=1&c=2", "~/a", "A_B"],
)  # fmt: skip
def test_other_messages_have_no_accelerator(message: str) -> None:
    assert without_accelerator(message) == (message, None)


def test_a_po_file_keeps_its_accelerators() -> None:
    pytest.importorskip("translate", reason="the extra `documents` is not installed")
    source = """msgid "E&xit the %s"\nmsgstr ""\n\n#, fuzzy\nmsgid "_Open"\nmsgstr "alt"\n"""
    document = PoFormat(UnitConfig()).read(source.encode())
    assert [block.source.text for block in document.blocks] == ["Exit the %s", "Open"]
    output = document.render([translated(block.source) for block in document.blocks]).decode()
    assert re.findall('msgstr "(.*)"', output) == ["%s &THE EXIT", "_OPEN"]
    assert "fuzzy" not in output
