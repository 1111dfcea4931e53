"""Finds which words are punctuation, from the parts of speech of a treebank.

EVALB ignores punctuation by its part of speech, separately in output and reference. If a parser tags one full stop as a
noun, the two have different lengths, and EVALB skips the sentence.
"""

from __future__ import annotations

__all__ = ["Punctuation", "is_punctuation"]

from collections import defaultdict
from typing import TYPE_CHECKING

from s2s_parsing.linear import UNKNOWN_TAG
from s2s_parsing.tree import Tree, Word, map_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def is_punctuation(tag: str) -> bool:
    """Whether a part of speech has no letters, such as `,`, or is a bracket's, such as -LRB-."""
    return tag.startswith("-") or not any(map(str.isalpha, tag))


class Punctuation:
    """Words tagged as punctuation anywhere in a treebank, each with all its tags, the most frequent first."""

    def __init__(self, tags: Mapping[str, Sequence[str]]) -> None:
        self.tags = tags

    @classmethod
    def learn(cls, counts: Mapping[tuple[str, str], int]) -> Punctuation:
        """The punctuation found in the counts of (tag, word)."""
        words = {word for tag, word in counts if is_punctuation(tag)}
        tags = defaultdict[str, list[str]](list)
        for tag, word in sorted(counts, key=lambda pair: (pair[1], -counts[pair], pair[0])):
            if word in words:
                tags[word].append(tag)
        return cls(tags)

    def tag(self, word: str, written: str) -> str:
        """The part of speech of a word that an output tags as `written`.

        Punctuation gets a tag that it has in the treebank; no other word is tagged as punctuation.
        """
        known = self.tags.get(word)
        if known:
            return written if written in known else known[0]
        is_mistagged = is_punctuation(written) and any(map(str.isalnum, word))
        return UNKNOWN_TAG if is_mistagged else written

    def retag(self, tree: Tree) -> Tree:
        """The tree with the parts of speech that `tag` gives."""
        return map_words(tree, lambda tag, word: Word(self.tag(word, tag), word))
