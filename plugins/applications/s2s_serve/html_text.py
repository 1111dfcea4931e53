"""Translates the text of HTML and leaves its tags unchanged."""

from __future__ import annotations

__all__ = ["text_of", "translate_html"]

import re
from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RAW_TEXT_TAGS = ("script", "style")
"""Elements whose text has no character references"""
UNTRANSLATED_TAGS = (*RAW_TEXT_TAGS, "code", "pre")
BLANKS = re.compile(r"[ \t\n\f\r]+")
"""What HTML shows as one blank; a no-break space is none"""


def text_of(source: str) -> str:
    """The text that would be translated."""
    return " ".join(text for is_text, text in _parse(source) if is_text)


async def translate_html(source: str, translate: Callable[[str], Awaitable[list[str]]]) -> list[str]:
    """The outputs of the whole: the k-th consists of the k-th best of each piece of text between two tags.

    Texts are given to `translate` as HTML shows them: a line break is a blank, except in a textarea. A text without a
    letter or digit, such as a full stop behind a tag, is copied.
    """
    parts = _parse(source)
    outputs = {
        i: await translate(_as_shown(text, after=parts[i - 1][1] if i else ""))
        for i, (is_text, text) in enumerate(parts)
        if is_text and any(map(str.isalnum, text))
    }
    n = max(map(len, outputs.values()), default=1)
    return ["".join(_render(i, *part, outputs, k) for i, part in enumerate(parts)) for k in range(n)]


def _parse(source: str) -> list[tuple[bool, str]]:
    parser = _Parts()
    parser.feed(source)
    parser.close()
    return parser.parts


def _as_shown(text: str, after: str) -> str:
    """A text as HTML shows it; `after` is what comes before it."""
    return text.strip() if after.lower().startswith("<textarea") else BLANKS.sub(" ", text.strip())


def _render(i: int, is_text: bool, text: str, outputs: dict[int, list[str]], k: int) -> str:
    if i not in outputs:
        return escape(text, quote=False) if is_text else text
    begin, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return begin + escape(outputs[i][min(k, len(outputs[i]) - 1)], quote=False) + end


class _Parts(HTMLParser):
    """The parts of the source, each with whether it is text; everything else is unchanged."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[tuple[bool, str]] = []
        self.open_untranslated: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append((False, self.get_starttag_text() or ""))
        self.open_untranslated += [tag] if tag in UNTRANSLATED_TAGS else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append((False, self.get_starttag_text() or ""))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append((False, f"</{tag}>"))
        if tag in self.open_untranslated:
            self.open_untranslated.remove(tag)

    def handle_data(self, data: str) -> None:
        """A text, or a part of it: a `<` that begins no tag comes by itself."""
        if self.parts and self.parts[-1][0]:  # a text, after which nothing has been opened
            self.parts[-1] = (True, self.parts[-1][1] + data)
            return
        is_escaped = bool(self.open_untranslated) and not set(RAW_TEXT_TAGS) & set(self.open_untranslated)
        self.parts.append((not self.open_untranslated, escape(data, quote=False) if is_escaped else data))

    def handle_comment(self, data: str) -> None:
        self.parts.append((False, f"<!--{data}-->"))

    def handle_decl(self, decl: str) -> None:
        self.parts.append((False, f"<!{decl}>"))

    def handle_pi(self, data: str) -> None:
        self.parts.append((False, f"<?{data}>"))

    def unknown_decl(self, data: str) -> None:
        """A section such as <![CDATA[…]]>, or one without a second bracket, such as <![endif]>."""
        self.parts.append((False, f"<![{data}]]>" if "[" in data else f"<![{data}]>"))
