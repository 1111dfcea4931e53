"""Unknown words in training sentences without a vocabulary of words: some get a letter that no subword has."""

from __future__ import annotations

__all__ = ["UnknownWords"]

from random import Random
from typing import TYPE_CHECKING

from s2s import Encoded
from s2s.data import noise
from s2s_parsing.source_encoder import words_of

if TYPE_CHECKING:
    from s2s_parsing.source_encoder import SourceEncoder

SHARES = 2**64
"""Number of seeds"""


class UnknownWords:
    """A pair with one word of its source altered, by its ids and a seed alone; the tree is over as many words."""

    def __init__(self, share: float, source: SourceEncoder, *, has_styles: bool) -> None:
        """share: of the pairs that are altered. has_styles: whether the first word names a style, which stays."""
        self.share, self.source, self.first = share, source, int(has_styles)
        self._symbols = noise.UnknownSymbols(share, source.subwords)

    def __call__(self, pair: Encoded, seed: int) -> Encoded:
        """The pair under a seed; unchanged if its ids are not those of their text."""
        if seed >= self.share * SHARES:
            return pair
        line = self.source.decode(pair.src)
        words = words_of(line)
        style, others = words[: self.first], words[self.first :]
        if not others:
            return pair
        altered = [*style, *self._symbols.in_word(others, Random(seed))]
        before, after = self.source.encode([line, " ".join(altered)])
        return (
            Encoded(after, pair.tgt) if before == pair.src and len(words_of(" ".join(altered))) == len(words) else pair
        )
