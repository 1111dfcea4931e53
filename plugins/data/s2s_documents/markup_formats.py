"""HTML and XML."""

from __future__ import annotations

__all__ = ["HtmlFormat", "XmlFormat", "html_parts", "write_markup", "xml_template"]

from html import escape
from typing import TYPE_CHECKING
from xml.parsers import expat

from s2s import DataError
from s2s.text import DocumentFormat
from s2s_documents.encodings import decode_html, decode_xml
from s2s_documents.html_attributes import PageTemplate
from s2s_documents.html_flow import html_flow
from s2s_documents.markup_tokens import html_tokens, xml_tokens
from s2s_documents.runs import parts
from s2s_documents.template import Template, render_spans
from s2s_documents.xml_flow import is_html, xml_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from s2s import Choice
    from s2s.text import AnnotatedText, Document
    from s2s_documents.template import RawInside, TemplatePart

BOM = "\ufeff"


class HtmlFormat(DocumentFormat):
    """HTML: whole pages and fragments, well-formed or not, in the declared encoding."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        text, encode = decode_html(data)
        page = text.removeprefix(BOM)
        return PageTemplate([text[: len(text) - len(page)], *html_parts(page)], encode, html_tokens)


class XmlFormat(DocumentFormat):
    """XML: XHTML is read as HTML; in others, an element is inline where text stands beside it."""

    def __init__(self, config: Choice) -> None:
        pass

    def read(self, data: bytes) -> Document:
        text, encode = decode_xml(data)
        return xml_template(text, encode)


def html_parts(source: str) -> Iterator[TemplatePart]:
    """The parts of a page or a fragment."""
    return parts(html_flow(html_tokens(source)), write_markup)


def xml_template(source: str, encode: Callable[[str], bytes]) -> Template:
    """An XML document, perhaps of XHTML; raises DataError if it is not well-formed."""
    check_well_formed(source)
    tokens = list(xml_tokens(source))
    if is_html(tokens):
        return PageTemplate(parts(html_flow(tokens), write_markup), encode, xml_tokens)
    return Template(parts(xml_flow(tokens), write_markup), encode)


def write_markup(text: AnnotatedText, raw_inside: RawInside) -> str:
    """The text with references for the letters that markup needs."""
    return render_spans(text, raw_inside, lambda plain: escape(plain, quote=False))


def check_well_formed(source: str) -> None:
    """Raise DataError with the place of the first error."""
    parser = expat.ParserCreate()
    parser.DefaultHandler = lambda _: None  # with one, expat expands no entity in text; it reads none from elsewhere
    try:
        parser.Parse(source.removeprefix(BOM), True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        raise DataError(f"no well-formed XML: line {error.lineno}, column {error.offset}: {message}") from None
