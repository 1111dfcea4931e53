"""Bracketed trees compared with their gold trees: which brackets are wrong, and drawings of both."""

from __future__ import annotations

__all__ = ["Bracket", "brackets_of", "compare_brackets", "draw_svg"]

import re
from collections import Counter
from html import escape
from typing import NamedTuple

from s2s_report.document import svg

TOKEN = re.compile(r"\(|\)|[^\s()]+")
ROW, GAP, PAD = 38, 14, 8
"""Height of a level, gap between words, margin, in pixels"""


class Bracket(NamedTuple):
    """A label over the words from `begin` to `end`, exclusive."""

    label: str
    begin: int
    end: int


class Node(NamedTuple):
    """A tree as written on a line; a word is a node without children."""

    label: str
    begin: int
    end: int
    children: list[Node]


def read(line: str) -> Node | None:
    """The tree of a line; None for anything else."""
    stack: list[tuple[str, int, list[Node]]] = []
    tokens, n_words, root = TOKEN.findall(line), 0, None
    expects_label = False
    for token in tokens:
        if token == "(":
            stack.append(("", n_words, []))
            expects_label = True
        elif token == ")":
            if not stack:
                return None
            label, begin, children = stack.pop()
            node = Node(label, begin, n_words, children)
            if stack:
                stack[-1][2].append(node)
            elif root is None:
                root = node
            else:
                return None
            expects_label = False
        elif expects_label:
            stack[-1] = (token, *stack[-1][1:])
            expects_label = False
        elif stack:
            stack[-1][2].append(Node(token, n_words, n_words + 1, []))
            n_words += 1
        else:
            return None
    return root if not stack else None


def brackets_of(node: Node) -> list[Bracket]:
    """The brackets of all constituents, without words and their parts of speech."""
    if not node.children or not any(child.children for child in node.children):
        return []
    inside = [bracket for child in node.children for bracket in brackets_of(child)]
    return [Bracket(node.label, node.begin, node.end), *inside]


def compare_brackets(hyp: Node, gold: Node) -> tuple[Counter[Bracket], Counter[Bracket]]:
    """Brackets only in the output, and brackets only in the gold tree."""
    hyp_counts, gold_counts = Counter(brackets_of(hyp)), Counter(brackets_of(gold))
    return hyp_counts - gold_counts, gold_counts - hyp_counts


def draw_svg(tree: Node, wrong: Counter[Bracket], mark: str) -> str:
    """An SVG; a wrong bracket has a dashed frame, its own colour, and `mark` before its label."""
    left = Counter(wrong)
    parts: list[str] = []
    width = _draw(tree, 0, PAD, left, mark, parts)[1] + PAD
    height = _depth(tree) * ROW + 2 * PAD
    return svg(parts, width, height)


def _draw(
    node: Node, level: int, x: float, wrong: Counter[Bracket], mark: str, parts: list[str]
) -> tuple[float, float]:
    """Draw a subtree from x rightwards; the middle of its label, and its right end."""
    y = PAD + level * ROW + 12
    bracket = Bracket(node.label, node.begin, node.end)
    is_wrong = bool(node.children) and any(child.children for child in node.children) and wrong[bracket] > 0
    if is_wrong:
        wrong[bracket] -= 1
    label = f"{mark}{node.label}" if is_wrong else node.label
    label_width = 8.5 * len(label) + GAP  # capitals are about 8.5 pixels wide
    if not node.children:
        parts.append(f'<text x="{x + label_width / 2:.1f}" y="{y}" text-anchor="middle">{escape(label)}</text>')
        return x + label_width / 2, x + label_width
    at, middles = x, []
    for child in node.children:
        middle, at = _draw(child, level + 1, at, wrong, mark, parts)
        middles.append(middle)
    at = max(at, x + label_width)
    middle = (middles[0] + middles[-1]) / 2 if at > x + label_width else x + label_width / 2
    parts += [
        f'<line x1="{middle:.1f}" y1="{y + 4}" x2="{m:.1f}" y2="{y + ROW - 12}" style="stroke:var(--line)"/>'
        for m in middles
    ]
    if is_wrong:
        parts.append(
            f'<rect x="{middle - label_width / 2 + 3:.1f}" y="{y - 14}" '
            f'width="{label_width - 6:.1f}" height="19" rx="4" '
            f'stroke-dasharray="4 2" style="fill:none;stroke:var(--bad)"/>'
        )
    colour = "var(--bad)" if is_wrong else "var(--accent)"
    parts.append(f'<text x="{middle:.1f}" y="{y}" text-anchor="middle" style="fill:{colour}">{escape(label)}</text>')
    return middle, at


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.children), default=0)
