"""A word-by-word diff of two texts."""

from __future__ import annotations

__all__ = ["word_diff"]

from difflib import SequenceMatcher


def word_diff(old: str, new: str) -> list[tuple[str, str]]:
    """`new` in parts, each unmarked (""), missing from it ("del") or new in it ("ins")."""
    before, after = old.split(), new.split()
    parts = []
    for kind, i, j, k, m in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append(("", " ".join(after[k:m])))
            continue
        parts += [("del", " ".join(before[i:j]))] * (j > i)
        parts += [("ins", " ".join(after[k:m]))] * (m > k)
    return parts
