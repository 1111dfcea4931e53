"""Trees as pictures: SVG, and the same within a web page. All of it is ASCII, so that any page can include it."""

from __future__ import annotations

__all__ = ["html", "svg"]

import re
import unicodedata
from html import escape
from typing import NamedTuple

from s2s_parsing.text_tree import shown
from s2s_parsing.tree import fold, leaves

SIGN, GAP, STEP, SIZE = 8.0, 14.0, 42.0, 14
"""Pixels: width of a character, gap between words, distance between levels, and font size"""
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")  # XML has no way to write most of these
COLOURS = {"bracket": "#1b4f9c", "tag": "#3f7d3f", "word": "#111"}


class NodePosition(NamedTuple):
    """The position of something drawn."""

    x: float
    level: int
    """Levels above the words"""


def svg(line: str) -> str:
    """The tree of a line of brackets as an SVG document, on one line."""
    picture = _Picture()
    top = fold(shown(line), picture.leaf, picture.bracket).level
    width, height = picture.width + GAP, (top + 1) * STEP
    branches = [_branch(parent, child, top) for parent, child in picture.branches]
    branches += [_label(spot, text, kind, top) for spot, text, kind in picture.labels]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="Helvetica, Arial, sans-serif" font-size="{SIZE}" '
        f'text-anchor="middle"><rect width="100%" height="100%" fill="white"/>'
    )
    return "".join([head, *branches, "</svg>"])


def html(line: str) -> str:
    """The picture with its sentence, as an HTML fragment on one line."""
    sentence = _text(" ".join(leaf.word for leaf in leaves(shown(line))))
    return f'<figure style="overflow-x: auto"><figcaption>{sentence}</figcaption>{svg(line)}</figure>'


class _Picture:
    """Grows from left to right, as `fold` meets the words."""

    def __init__(self) -> None:
        self.width = GAP
        self.labels: list[tuple[NodePosition, str, str]] = []
        self.branches: list[tuple[NodePosition, NodePosition]] = []

    def leaf(self, tag: str, word: str) -> NodePosition:
        """Draw a word at the bottom, with its part of speech above it."""
        width = SIGN * max(_n_columns(word), _n_columns(tag), 3) + GAP
        below, spot = NodePosition(self.width + width / 2, 0), NodePosition(self.width + width / 2, 1)
        self.width += width
        self.labels += [(below, word, "word"), (spot, tag, "tag")]
        self.branches.append((spot, below))
        return spot

    def bracket(self, label: str, children: list[NodePosition]) -> NodePosition:
        """Draw a bracket above the middle of its children, and higher than all of them."""
        spot = NodePosition((children[0].x + children[-1].x) / 2, 1 + max(child.level for child in children))
        self.labels.append((spot, label, "bracket"))
        self.branches += [(spot, child) for child in children]
        return spot


def _branch(parent: NodePosition, child: NodePosition, top: int) -> str:
    """A line down from a label, across, and down to another: a slanted one would run through labels between them."""
    y1, y2 = _y(parent, top) + 5, _y(child, top) - SIZE
    across = y1 + (STEP - SIZE - 5) / 2
    return f'<path d="M{parent.x:g} {y1:g}V{across:g}H{child.x:g}V{y2:g}" fill="none" stroke="#999"/>'


def _label(spot: NodePosition, text: str, kind: str, top: int) -> str:
    return f'<text x="{spot.x:g}" y="{_y(spot, top):g}" fill="{COLOURS[kind]}">{_text(text)}</text>'


def _y(spot: NodePosition, top: int) -> float:
    """The baseline of the text at a spot."""
    return (top - spot.level + 0.6) * STEP


def _n_columns(text: str) -> int:
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def _text(text: str) -> str:
    return escape(UNPRINTABLE.sub("\ufffd", text)).encode("ascii", "xmlcharrefreplace").decode()
