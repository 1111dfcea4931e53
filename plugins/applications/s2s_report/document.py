"""Sections of tables, texts and pictures, written as one self-contained HTML file, or as Markdown.

The same report gives the same bytes: nothing in it depends on the time or on the machine that writes it.
"""

from __future__ import annotations

__all__ = ["Block", "Details", "Explorer", "Picture", "Section", "Table", "Text", "as_html", "as_markdown"]

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Union


@dataclass(frozen=True)
class Text:
    """A paragraph; `html` is its HTML version, if it has markup."""

    text: str
    html: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """Rows with a header."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    """Columns of numbers, which are right-aligned"""


@dataclass(frozen=True)
class Picture:
    """An inline SVG, and its description in words."""

    svg: str
    text: str
    caption: str = ""


@dataclass(frozen=True)
class Explorer:
    """HTML that the page's script makes interactive, and its description in words."""

    html: str
    text: str


@dataclass(frozen=True)
class Details:
    """A collapsible block."""

    title: str
    blocks: Sequence[Block]


Block = Union[Text, Table, Picture, Explorer, "Details"]


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    title: str
    blocks: list[Block] = field(default_factory=list)


def as_html(title: str, sections: Sequence[Section], script: str = "") -> str:
    """The whole page, which runs `script`."""
    style = files("s2s_report").joinpath("style.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#s{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections))
    body = "".join(
        f'<section id="s{i}"><h2>{escape(section.title)}</h2>{"".join(map(_html, section.blocks))}</section>\n'
        for i, section in enumerate(sections)
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>\n{style}</style><script>{script}</script></head>\n<body><h1>{escape(title)}</h1>"
        f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n<main>{body}</main></body></html>\n'
    )


def _html(block: Block) -> str:
    if isinstance(block, Text):
        kind = ' class="verdict"' if block.strong else ""
        return f"<p{kind}>{block.html or escape(block.text)}</p>"
    if isinstance(block, Picture):
        caption = f"<figcaption>{escape(block.caption)}</figcaption>" if block.caption else ""
        return f'<figure role="img" aria-label="{escape(block.text)}">{block.svg}{caption}</figure>'
    if isinstance(block, Explorer):
        return block.html
    if isinstance(block, Details):
        inside = "".join(map(_html, block.blocks))
        return f"<details><summary>{escape(block.title)}</summary>{inside}</details>"
    head = "".join(f"<th{_flush(block, i)}>{escape(cell)}</th>" for i, cell in enumerate(block.head))
    rows = "".join(
        "<tr>" + "".join(f"<td{_flush(block, i)}>{escape(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in block.rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _flush(table: Table, column: int) -> str:
    return ' class="n"' if column in table.numeric else ""


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """The report as Markdown, with descriptions instead of pictures."""
    parts = [f"# {title}\n"]
    for section in sections:
        parts += [f"## {section.title}\n", *map(_markdown, section.blocks)]
    return "\n".join(parts)


def _markdown(block: Block) -> str:
    if isinstance(block, Text):
        return f"**{block.text}**\n" if block.strong else f"{block.text}\n"
    if isinstance(block, Picture | Explorer):
        return f"{block.text}\n"
    if isinstance(block, Details):
        return f"### {block.title}\n\n" + "\n".join(map(_markdown, block.blocks))
    flush = ["---:" if i in block.numeric else "---" for i in range(len(block.head))]
    lines = [block.head, flush, *([_cell(cell) for cell in row] for row in block.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
