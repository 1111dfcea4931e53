"""HTML and XML: what is a block, what is kept, and that all else comes back byte for byte."""

from __future__ import annotations

import codecs
import re

import pytest

from harness.documents import Tags, render, texts
from s2s.errors import DataError
from s2s.registry import Choice
from s2s.text import Span
from s2s_documents.markup_formats import HtmlFormat, XmlFormat
from s2s_documents.markup_tokens import html_tokens

PAGE = """<!DOCTYPE html>\r
<html lang="en"><head><title>Dogs &amp; cats</title><style>p > a { color: red }</style></head>\r
<body class='x'><!-- a <b>comment</b> --><h1 id=one>The   old\r
 dog</h1><p>A cat<br>sleeps.</p>\r
<UL><li>one dog<li>two <B>dogs</B> run</UL><script>if (a < b && c) x = '<p>no</p>'</script></body></html>\r
"""


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<p>a <img alt="old dog" src=old> <a title=\'the "cat"\' href=old>b</a></p>',
         '<p><img alt="DOG OLD" src=old><a title=\'"CAT" THE\' href=old>B</a> A</p>'),
        ("<input placeholder=dog type=SUBMIT value=\" go \">", '<input placeholder="DOG" type=SUBMIT value=" GO ">'),
        ('<meta name="Description" content="a &amp; b"><meta name=robots content=all>',
         '<meta name="Description" content="B &amp; A"><meta name=robots content=all>'),
        ("<button aria-label='see it'>x</button>", "<button aria-label='IT SEE'>X</button>"),
        ('<img alt="3.5"><b title="">c</b>', '<img alt="3.5"><b title="">C</b>'),
        ('<b title="a\'b">x</b> <b title=\'c\'>y</b>', '<b title=\'C\'>Y</b> <b title="A\'B">X</b>'),
    ],
)  # fmt: skip
def test_attributes_for_readers_are_translated(page: str, expected: str) -> None:
    assert render(HtmlFormat, page, backwards=True) == expected


@pytest.mark.parametrize(
    "page",
    ["<input value=dog>", "<p translate=no title=dog><img alt=dog><b title=x>dog</b></p>",
     "<img alt='3.5' title='' id=dog>",
     "<svg><a title='dog'/></svg>",
     "<script>'<p title=dog>'</script>", "<link title=dog>", "<meta name=x content=dog>"],
)  # fmt: skip
def test_other_attributes_keep_their_bytes(page: str) -> None:
    assert render(HtmlFormat, page) == page


def test_attributes_of_xhtml_are_translated_and_stay_well_formed() -> None:
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><p title="a &lt; dog"><img alt=\'cat\' src="a"/>go</p></html>'
    assert render(XmlFormat, page) == page.replace("a &lt; dog", "A &lt; DOG").replace("cat", "CAT").replace("go", "GO")


@pytest.mark.parametrize("name", ["code", "kbd", "samp", "var", "tt", "sup"])
def test_what_is_code_or_the_number_of_a_note_is_kept(name: str) -> None:
    text = "2" if name == "sup" else "x"
    page = f"<p>the <{name}>{text}</{name}><code>y</code> dog</p>"
    assert render(HtmlFormat, page, backwards=True) == f"<p>DOG <{name}>{text}</{name}><code>y</code> THE</p>"


def test_what_is_kept_is_around_its_copy_though_another_element_lacks_words() -> None:
    page = "<p>about <mark><b>&lt;5</b> <kbd>кот</kbd> <u>e-mail the</u> <i>3.14</i></mark>…</p>"
    output = render(HtmlFormat, page, backwards=True)
    assert output.count("кот") == 1
    assert "E-MAIL" in re.sub("<[^>]*>", "", output)


def test_a_superscript_with_letters_is_text() -> None:
    assert render(HtmlFormat, "<p>the <sup>big</sup> dog</p>") == "<p>THE <sup>BIG</sup> DOG</p>"


def test_a_page_is_translated_block_by_block() -> None:
    expected = ["Dogs & cats", "The old dog", "A cat sleeps.", "one dog", "two dogs run"]
    assert texts(HtmlFormat, PAGE) == expected
    page = render(HtmlFormat, PAGE)
    assert Tags(page).tags == Tags(PAGE).tags
    changed = PAGE.replace("Dogs &amp; cats", "DOGS &amp; CATS").replace("The   old\r\n dog", "THE OLD DOG")
    changed = changed.replace("A cat<br>sleeps.", "A CAT <br>SLEEPS.").replace("one dog", "ONE DOG")
    assert page == changed.replace("two <B>dogs</B> run", "TWO <B>DOGS</B> RUN")


def test_a_mark_of_the_encoding_is_no_text() -> None:
    assert texts(HtmlFormat, "\ufeffa dog") == ["a dog"]


def test_inline_tags_are_spans_of_one_sentence() -> None:
    (block,) = HtmlFormat(Choice()).read(b'<p>Did a <b>big <i class="x">bear</i></b> look<!-- x -->?</p>').blocks
    assert (block.kind, block.source.text) == ("p", "Did a big bear look?")
    assert block.source.spans == (
        Span(6, 14, "<b>", "</b>", False, 0),
        Span(10, 14, '<i class="x">', "</i>", False, 1),
        Span(19, 19, "<!-- x -->", "", False, 0),
    )


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>\n  The old dog\n  sleeps.\r\n</p>", "<p>\n  THE OLD DOG SLEEPS.\r\n</p>"),
        ("<p>1 < 2 and more</p>", "<p>1 &lt; 2 AND MORE</p>"),
        ("a &lt; b < c<br><br>d <", "A &lt; B &lt; C<br><br>D &lt;"),
        ("\ufeffa dog", "\ufeffA DOG"),
        ("10&nbsp;km\u2028on", "10\xa0KM\u2028ON"),
        ("<p>a</p>\n\n<pre>b\n  c</pre>", "<p>A</p>\n\n<pre>b\n  c</pre>"),
        ("<p>&nbsp;<b> a dog </b>&#160;</p>", "<p>&nbsp;<b> A DOG </b>&#160;</p>"),
        ("<p><b><i>a</i> dog</b></p>", "<p><b><i>A</i> DOG</b></p>"),
        ("<p>go <b></b>now</p>", "<p>GO <b></b>NOW</p>"),
        ("<p>go <a href=x><img src=y></a> now</p>", "<p>GO <a href=x><img src=y></a>NOW</p>"),
        ("<p title='a dog'>a<img alt=\"no > yes\">cat</p>", "<p title='A DOG'>A <img alt=\"NO &gt; YES\">CAT</p>"),
        ("super<wbr>cat sat", "SUPERCAT<wbr> SAT"),
        ("<p>go <a href=http://x.org/>here</a> now", "<p>GO <a href=http://x.org/>HERE</a> NOW"),
        ("<p>go <i/>here <i id='x'/>now", "<p>GO <i/>HERE <i id='x'/>NOW"),
        ("<b><i><u>a</i> b</b> c</u> d", "<b><i><u>A</i> B</b> C</u> D"),
    ],
    ids=lambda text: text[:25],
)
def test_a_text_is_read_as_html_shows_it(page: str, expected: str) -> None:
    assert render(HtmlFormat, page) == expected


@pytest.mark.parametrize(
    "page",
    [
        '<p translate="no">The dog <b>sleeps</b>.</p>',
        "<div class='a notranslate'><p>The dog</p><ul><li>sleeps</ul></div>",
        "<pre>&lt;script&gt;alert(1)&lt;/script&gt; &amp;amp;</pre>",
        "<code>a &lt; b</code>",
        "<textarea>a <b>dog</b></textarea>",
        "<svg><title>A dog</title><text>barks</text></svg>",
        "<math><mi>sin</mi></math>",
        "<template><p>A dog</p></template>",
        "<p><![CDATA[x < y]]></p>",
        "<p>3.50 &#8211; 7</p>",
        "<p>&amp;</p>",
        "",
        "<",
        "<!-- a dog",
        "<p title='a dog",
        "<script>a dog</p>",
    ],
)
def test_what_is_not_translated_stays_as_it_is(page: str) -> None:
    assert texts(HtmlFormat, page) == []
    assert render(HtmlFormat, page) == page


def test_kept_words_within_a_sentence() -> None:
    page = "<p>The call <code>f(<var>x</var>) &#60; 1</code> of <span translate=no>ACME &amp; Sons</span> ends.</p>"
    assert render(HtmlFormat, page) == page.replace("The call", "THE CALL").replace(" of ", " OF ").replace(
        "ends", "ENDS"
    )


def test_translation_is_switched_off_for_children_and_on_again() -> None:
    page = (
        '<div translate=no>The dog<p>sleeps <b translate="yes">a lot &amp; well</b> now</p><p translate>Bye</p></div>'
    )
    expected = page.replace("a lot &amp; well", "A LOT &amp; WELL").replace("Bye", "BYE")
    assert render(HtmlFormat, page) == expected


def test_an_element_that_has_ended_within_another_says_nothing() -> None:
    page = "<code><span translate=yes><div>one</span></div> f(x) </code>"
    assert render(HtmlFormat, page) == page.replace("one", "ONE")


def test_a_list_item_that_is_not_closed_ends_with_the_next() -> None:
    assert render(HtmlFormat, "<ul><li translate=no>a dog<li>a cat</ul>") == (
        "<ul><li translate=no>a dog<li>A CAT</ul>"
    )


@pytest.mark.parametrize(
    "page",
    [
        "<b>one <i>two</b> three</i> four",
        "one <b>two<p>three</b> four</p> five",
        "one </b> two <i> three",
        "<p>one <a href=x>two<div>three</div> four</a>",
        "one <b <i>two</i> three",
        "<a href='x>one</a> two ' >three</a>",
        "</ one>two</three four>five<6",
        "&unknown; one &amp two &#xZ;",
        "one <!-- two > three",
        "<p>one<?php two ?> three</p>",
        "<td>one<tr>two</table>three",
    ],
)
def test_malformed_html_has_the_same_tags_in_the_same_order(page: str) -> None:
    """Tags that have no partner, and elements that cross, stay where they are; texts between them are translated."""
    tokens = [token.raw for token in html_tokens(render(HtmlFormat, page)) if token.kind != "text"]
    assert [raw for raw in tokens if raw.startswith("<")] == [
        token.raw for token in html_tokens(page) if token.raw.startswith("<") and token.kind != "text"
    ]


@pytest.mark.parametrize(
    "page", ["<b>x" * 4000 + "</b>" * 4000, "<a b='" * 9000, "<!--" * 9000, "<i>x <b>y</i>z</b>" * 900]
)
def test_a_malicious_page_is_read_in_a_moment(page: str) -> None:
    """It would take minutes if the time grew with the square of its length; the test itself has no clock."""
    HtmlFormat(Choice()).read(page.encode())


@pytest.mark.parametrize(
    ("declaration", "codec"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<meta http-equiv=content-type content='text/html; charset=koi8-r'>", "koi8-r"),
        ("\ufeff", "utf-8"),
        ("\ufeff", "utf-16-le"),
    ],
)
def test_a_page_keeps_its_encoding(declaration: str, codec: str) -> None:
    page = f"{declaration}<p>caf\u00e9 dog</p>" if codec != "koi8-r" else f"{declaration}<p>кот dog</p>"
    document = HtmlFormat(Choice()).read(page.encode(codec))
    (block,) = document.blocks
    output = block.source.__class__("日 – x")
    expected = "日 – x" if codec.startswith("utf") else {"cp1252": "&#26085; – x"}.get(codec, "&#26085; &#8211; x")
    assert document.render([output]).decode(codec) == page.replace(block.source.text, expected)


def test_bytes_of_no_declared_encoding_are_refused() -> None:
    with pytest.raises(DataError, match="not utf-8: byte 3"):
        HtmlFormat(Choice()).read("<p>é".encode("latin-1"))
    with pytest.raises(DataError, match="encoding that Python does not have: x-none"):
        HtmlFormat(Choice()).read(b"<meta charset=x-none>")


XML = """\ufeff<?xml version='1.0' encoding="UTF-8"?>
<!DOCTYPE book [ <!ENTITY co "Company > 'x'"> <!-- ' ]> --> ]>
<book><title  lang = 'en'>The dog &amp; the cat</title><?pi x > y?>
<para>A <em>big <a href="x>y"/>dog</em> of &co; sleeps <!-- here -->now.</para>
<list><item>one dog</item><item><name>two dogs</name></item></list>
<para translate="no">A <em>dog</em></para><![CDATA[ <b>a dog ]]></book>
"""


def test_an_element_of_xml_is_inline_where_text_stands_beside_it() -> None:
    assert texts(XmlFormat, XML) == ["The dog & the cat", "A big dog of &co; sleeps now.", "one dog", "two dogs"]
    expected = XML.replace("The dog &amp; the cat", "THE DOG &amp; THE CAT").replace("A <em>big", "A <em>BIG")
    expected = (
        expected.replace("dog</em> of &co; sleeps", "DOG</em> OF &co; SLEEPS")
        .replace("now.", "NOW.")
        .replace("one dog", "ONE DOG")
    )
    assert render(XmlFormat, XML) == expected.replace("two dogs", "TWO DOGS")


def test_xhtml_is_read_as_html_and_stays_well_formed() -> None:
    page = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script/></head>'
        "<body><div/><p>The <b>old</b> <br/>dog <i/>sleeps</p><textarea/><p>A cat</p></body></html>"
    )
    assert texts(XmlFormat, page) == ["The old dog sleeps", "A cat"]
    output = render(XmlFormat, page, backwards=True)
    assert texts(XmlFormat, output) == ["SLEEPS DOG OLD THE", "CAT A"]
    assert Tags(output).counts == Tags(page).counts


def test_what_is_no_xml_is_refused_with_its_place() -> None:
    with pytest.raises(DataError, match="no well-formed XML: line 2, column 6: mismatched tag"):
        XmlFormat(Choice()).read(b"<a>\n<b>x</a>")


def test_utf16_with_a_declaration() -> None:
    data = codecs.BOM_UTF16_LE + '<?xml version="1.0" encoding="utf-16"?><a>A dog</a>'.encode("utf-16-le")
    document = XmlFormat(Choice()).read(data)
    (block,) = document.blocks
    assert document.render([block.source.__class__("日")]) == data.replace(
        "A dog".encode("utf-16-le"), "日".encode("utf-16-le")
    )


@pytest.mark.parametrize("page", [PAGE, "<p>a<b>c &lt;</b></p><IMG src='x'/><br>"])
def test_tokens_are_those_of_the_standard_library(page: str) -> None:
    """On well-formed pages; the names of tags, and the text, references included."""
    tags = [token for token in html_tokens(page) if token.kind in ("start", "end")]
    parsed = [tag.lower() for tag in Tags(page).tags if not tag.startswith("<!")]
    assert [token.raw.lower() for token in tags] == parsed
    assert "".join(token.raw for token in html_tokens(page)) == page
