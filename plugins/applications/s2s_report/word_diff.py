"""A word-by-word diff of two texts: missing words are struck through, new words are underlined."""

from __future__ import annotations

__all__ = ["diff_html"]

from difflib import SequenceMatcher
from html import escape


def diff_html(old: str, new: str) -> str:
    """`new`, with its differences from `old` marked."""
    before, after = old.split(), new.split()
    parts = []
    for kind, i, j, k, m in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(escape(" ".join(after[k:m])))
            continue
        parts += [f"<del>{escape(' '.join(before[i:j]))}</del>"] * (j > i)
        parts += [f"<ins>{escape(' '.join(after[k:m]))}</ins>"] * (m > k)
    return " ".join(parts)
