"""Which words are punctuation, as a treebank's parts of speech say: a matter of the word, not of the parse.

EVALB leaves punctuation out by its part of speech, on either side by its own. One full stop that a parser takes for a
noun makes two sentences of different lengths, and EVALB then compares nothing of them.
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
    """Whether a part of speech is written without letters, as `,` is, or is a bracket's, as -LRB- is."""
    return tag.startswith("-") or not any(map(str.isalpha, tag))


class Punctuation:
    """Words that are punctuation somewhere in a treebank, each with all its parts of speech, the commonest first."""

    def __init__(self, tags: Mapping[str, Sequence[str]]) -> None:
        self.tags = tags

    @classmethod
    def learn(cls, counts: Mapping[tuple[str, str], int]) -> Punctuation:
        """From how often each tag and word stand together."""
        words = {word for tag, word in counts if is_punctuation(tag)}
        tags = defaultdict[str, list[str]](list)
        for tag, word in sorted(counts, key=lambda pair: (pair[1], -counts[pair], pair[0])):
            if word in words:
                tags[word].append(tag)
        return cls(tags)

    def tag(self, word: str, written: str) -> str:
        """The part of speech of a word for which an output has `written` one.

        Punctuation gets one that it has somewhere in the treebank, and no other word is taken for punctuation.
        """
        known = self.tags.get(word)
        if known:
            return written if written in known else known[0]
        taken_for_it = is_punctuation(written) and any(map(str.isalnum, word))
        return UNKNOWN_TAG if taken_for_it else written

    def retag(self, tree: Tree) -> Tree:
        """The tree with such parts of speech."""
        return map_words(tree, lambda tag, word: Word(self.tag(word, tag), word))
