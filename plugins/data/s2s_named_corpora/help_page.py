"""A page of LibreOffice's help: its paragraphs with an id, as text or with their inline markup."""

from __future__ import annotations

__all__ = ["paragraphs"]

import re
from collections import Counter
from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

IDS = ("hd_", "par_")
TAGS = {
    "emph": "b",
    "avis": "span",
    "literal": "code",
    "menuitem": "item",
    "widget": "item",
    "input": "kbd",
    "keycode": "kbd",
}
"""Classes of <span>, and the tags that stand for them"""
PLAIN = ("a", "code", "sup", "sub")
VOID = ("br", "img", "meta", "input", "link", "hr")
HOLLOW = re.compile(r"<(\w+)></\1>")
SWITCH = ("switchinline", "switch")
"""Classes around variants for systems and applications, of which one is shown"""


def paragraphs(html: str, *, markup: bool) -> Iterator[tuple[tuple[str, int], str]]:
    """Every paragraph under its id and the number of times that the id stood before it on the page.

    Blanks are folded. A repetition of the same id with the same text is left out.
    """
    parser = _Page(markup)
    parser.feed(html)
    parser.close()
    seen, counts = set[tuple[str, str]](), Counter[str]()
    for name, text in parser.done:
        if (name, text) not in seen:
            seen.add((name, text))
            yield (name, counts[name]), text
            counts[name] += 1


class _Page(HTMLParser):
    """Collects the text of the open paragraph; of a switch, the default, or else the first variant."""

    def __init__(self, markup: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.markup = markup
        self.done: list[tuple[str, str]] = []
        self.name = ""
        """Id of the open paragraph; empty: none is open"""
        self.outer = ""
        """Its tag"""
        self.open: list[tuple[str, str, str]] = []
        """Elements inside of it: tag, what stands for their ends, and their role in a switch"""
        self.pieces: list[str] = []
        self.switches: list[tuple[int, int]] = []
        """Of each open switch: where its pieces begin, and where the shown variant ends (-1: none yet)"""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        if not self.name:
            if has.get("id", "").startswith(IDS) and tag not in VOID:
                self.name, self.outer, self.open, self.pieces, self.switches = has["id"], tag, [], [], []
            return
        if tag in VOID:
            self.pieces.append({"br": "<br/>", "img": "<img/>"}.get(tag, "") if self.markup else " ")
            return
        kind = has.get("class", "")
        role = "switch" if kind in SWITCH else "variant" if self.open and self.open[-1][2] == "switch" else ""
        if role == "switch":
            self.switches.append((len(self.pieces), -1))
        elif role == "variant" and self._is_shown(has.get("id", "")):
            begin, _ = self.switches[-1]
            del self.pieces[begin:]
            self.switches[-1] = (begin, -1)
        name = TAGS.get(kind, "") if tag == "span" else tag if tag in PLAIN else ""
        shown = name if self.markup else ""
        if shown:
            self.pieces.append(f"<{shown}>")
        self.open.append((tag, f"</{shown}>" if shown else "", role))

    def _is_shown(self, name: str) -> bool:
        """Whether a variant takes the place of those before it."""
        return self.switches[-1][1] == -1 or name.startswith("default")

    def handle_endtag(self, tag: str) -> None:
        if not self.name:
            return
        if tag == self.outer and not any(inner == tag for inner, *_ in self.open):
            self.done.append((self.name, " ".join(HOLLOW.sub("", "".join(self.pieces)).split())))
            self.name = ""
            return
        while any(inner == tag for inner, *_ in self.open):
            inner, end, role = self.open.pop()
            if end:
                self.pieces.append(end)
            self._close(role)
            if inner == tag:
                return

    def _close(self, role: str) -> None:
        if role == "switch":
            self.switches.pop()
        elif role == "variant" and self.switches:
            begin, end = self.switches[-1]
            if end == -1:
                self.switches[-1] = (begin, len(self.pieces))
            else:
                del self.pieces[end:]

    def handle_data(self, data: str) -> None:
        if self.name:
            self.pieces.append(escape(data, quote=False) if self.markup else data)
