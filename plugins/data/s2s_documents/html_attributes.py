"""Attributes of HTML that are text for readers, such as title and alt: each is a block behind those of the page."""

from __future__ import annotations

__all__ = ["PageTemplate"]

from html import escape, unescape
from typing import TYPE_CHECKING

from s2s.text import AnnotatedText, Block
from s2s_documents.html_flow import html_elements
from s2s_documents.markup_tokens import ATTRIBUTE, element_names, html_tokens
from s2s_documents.template import Template, rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from s2s_documents.markup_tokens import MarkupToken
    from s2s_documents.template import TemplatePart

TEXTS = element_names(
    "abbr alt aria-description aria-label aria-placeholder aria-roledescription aria-valuetext label placeholder title"
)
"""Attributes whose values are translated, in all elements"""
NAMED = ("link", "script", "style")
"""Elements whose title is the name of a style"""
BUTTONS = ("button", "reset", "submit")
"""Types of an input whose value is shown"""
DESCRIPTIONS = element_names(
    """description og:description og:image:alt og:site_name og:title twitter:description twitter:image:alt
    twitter:title"""
)
"""Names of a meta whose content is text"""


class PageTemplate(Template):
    """A page, whose attributes are found again in its translation, since a tag may have moved with its words."""

    def __init__(
        self,
        parts: Iterable[TemplatePart],
        encode: Callable[[str], bytes],
        tokens: Callable[[str], Iterable[MarkupToken]],
    ) -> None:
        """tokens: those of a page."""
        super().__init__(parts, encode)
        self.tokens, self.n_texts = tokens, len(self.blocks)
        page = "".join(rendered(self.parts, iter([block.source for block in self.blocks])))
        attributes = {value: name for raw in _raws(tokens(page)) if raw[1] for name, value in _texts(raw[0])}
        self.values = list(attributes)
        attribute_blocks = [Block(AnnotatedText(value), f"@{name}") for value, name in attributes.items()]
        self.blocks = [*self.blocks, *attribute_blocks]

    def render(self, outputs: Sequence[AnnotatedText]) -> bytes:
        page = "".join(rendered(self.parts, iter(outputs[: self.n_texts])))
        texts = {value: out.text for value, out in zip(self.values, outputs[self.n_texts :], strict=True)}
        if any(value != text for value, text in texts.items()):
            page = "".join(_replaced(raw, texts) if is_tag else raw for raw, is_tag in _raws(self.tokens(page)))
        return self.encode(page)


def _raws(tokens: Iterable[MarkupToken]) -> Iterator[tuple[str, bool]]:
    """The tokens of a page as it writes them, and whether each begins with a tag whose attributes are translated."""
    for token in html_elements(tokens):
        yield token.raw, not token.kept and token.raw[:1] == "<" and token.raw[1:2].isalpha() and "=" in token.raw


def _tag(raw: str) -> MarkupToken:
    """The tag with which an element begins."""
    return next(html_tokens(raw))


def _texts(raw: str) -> Iterator[tuple[str, str]]:
    """The attributes of a tag that are translated, with their texts."""
    tag = _tag(raw)
    for name, value in ATTRIBUTE.findall(tag.attributes):
        text = _text(value)
        if _is_text(tag, name.lower()) and any(map(str.isalpha, text)):
            yield name.lower(), text


def _inner(value: str) -> str:
    """The value of an attribute without quotes."""
    return value[1:-1] if value[:1] in ("'", '"') else value


def _text(value: str) -> str:
    """What an attribute says."""
    return unescape(_inner(value)).strip()


def _is_text(tag: MarkupToken, name: str) -> bool:
    if name == "value":
        return tag.name == "input" and (tag.attribute("type") or "").lower() in BUTTONS
    if name == "content":
        return tag.name == "meta" and (tag.attribute("name") or tag.attribute("property") or "").lower() in DESCRIPTIONS
    return name in TEXTS and tag.name not in NAMED


def _replaced(raw: str, texts: Mapping[str, str]) -> str:
    """The tag with translated attributes, of which all others keep their bytes."""
    tag = _tag(raw)
    known = dict(_texts(raw))
    parts, at = list[str](), 0
    for match in ATTRIBUTE.finditer(tag.attributes):
        text = known.get(match[1].lower())
        if text is not None and _text(match[2]) == text and texts[text] != text:
            quote = match[2][0] if match[2][0] in ("'", '"') else '"'
            written = escape(texts[text], quote=False).replace(quote, "&quot;" if quote == '"' else "&#39;")
            inner = _inner(match[2])
            before, after = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
            parts += [tag.attributes[at : match.start(2)], quote, before, written, after, quote]
            at = match.end(2)
    begin = len(tag.name) + 1
    return "".join([raw[:begin], *parts, tag.attributes[at:], raw[begin + len(tag.attributes) :]])
