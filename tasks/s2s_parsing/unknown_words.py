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

    def __init__(self, share: float, source: SourceEncoder) -> None:
        """share: of the pairs that are altered."""
        self.share, self.source = share, source
        self._symbols = noise.UnknownSymbols(share, source.subwords)

    def __call__(self, pair: Encoded, seed: int) -> Encoded:
        """The pair under a seed; unchanged if its ids are not those of their text."""
        if seed >= self.share * SHARES:
            return pair
        line = self.source.decode(pair.src)
        altered = " ".join(self._symbols.in_word(words := words_of(line), Random(seed)))
        before, after = self.source.encode([line, altered])
        return Encoded(after, pair.tgt) if before == pair.src and len(words_of(altered)) == len(words) else pair
