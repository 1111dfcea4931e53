"""Sections of tables, texts and pictures, written as one self-contained HTML file, or as Markdown.

The same report gives the same bytes: nothing in it depends on the time or on the machine that writes it.
"""

from __future__ import annotations

__all__ = [
    "Block",
    "Details",
    "Differences",
    "Explorer",
    "Picture",
    "Section",
    "Table",
    "Text",
    "as_html",
    "as_markdown",
    "svg",
]

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import ClassVar, Union

from jinja2 import Environment, StrictUndefined, Template


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar = "text"
    text: str
    strong: bool = False


@dataclass(frozen=True)
class Differences:
    """Texts by name, each as parts of which some are deleted ("del") or inserted ("ins"); and all in words."""

    kind: ClassVar = "differences"
    texts: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    text: str


@dataclass(frozen=True)
class Table:
    """Rows with a header."""

    kind: ClassVar = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    """Columns of numbers, which are right-aligned"""


@dataclass(frozen=True)
class Picture:
    """An inline SVG, and its description in words."""

    kind: ClassVar = "picture"
    svg: str
    text: str
    caption: str = ""


@dataclass(frozen=True)
class Explorer:
    """HTML that the page's script makes interactive, and its description in words."""

    kind: ClassVar = "explorer"
    html: str
    text: str


@dataclass(frozen=True)
class Details:
    """A collapsible block."""

    kind: ClassVar = "details"
    title: str
    blocks: Sequence[Block]


Block = Union[Text, Differences, Table, Picture, Explorer, "Details"]


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    title: str
    blocks: list[Block] = field(default_factory=list)


def svg(parts: Iterable[str], width: float, height: float, *, shrinks: bool = False) -> str:
    """An SVG of this size, in pixels; one that `shrinks` becomes smaller on a narrow screen."""
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    style = ' style="max-width:100%;height:auto"' if shrinks else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}{style}>{"".join(parts)}</svg>'


def as_html(title: str, sections: Sequence[Section], script: str = "") -> str:
    """The whole page, which runs `script`."""
    return _page().render(title=title, sections=sections, style=_file("style.css"), script=script) + "\n"


@cache
def _page() -> Template:
    """Compiled once in a process: that takes longer than to fill it in."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("page.html"))


def _file(name: str) -> str:
    return files("s2s_report").joinpath(name).read_text(encoding="utf-8")


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """The report as Markdown, with descriptions instead of pictures."""
    parts = [f"# {title}\n"]
    for section in sections:
        parts += [f"## {section.title}\n", *map(_markdown, section.blocks)]
    return "\n".join(parts)


def _markdown(block: Block) -> str:
    if isinstance(block, Details):
        return f"### {block.title}\n\n" + "\n".join(map(_markdown, block.blocks))
    if not isinstance(block, Table):
        return f"**{block.text}**\n" if isinstance(block, Text) and block.strong else f"{block.text}\n"
    flush = ["---:" if i in block.numeric else "---" for i in range(len(block.head))]
    lines = [block.head, flush, *([_cell(cell) for cell in row] for row in block.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
