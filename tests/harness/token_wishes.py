"""What an output must contain, in tokens that are one symbol each: for tests whose models have no text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from s2s_constraints.lexical import LexicalConstraint
from s2s_constraints.phrases import Phrase
from s2s_constraints.spelling import Spelling
from s2s_constraints.symbols import token_symbols

if TYPE_CHECKING:
    from collections.abc import Sequence


class Wish(NamedTuple):
    """The tokens with which an output begins, and sequences that it contains."""

    prefix: Sequence[int] = ()
    phrases: Sequence[Sequence[int]] = ()

    def constraint(self, n_tokens: int) -> LexicalConstraint:
        """The constraint for a vocabulary of this size."""
        prefixes = (token_symbols(self.prefix),) if self.prefix else ()
        phrases = (Phrase(token_symbols(p), tuple(p), tuple(p), whole=False) for p in self.phrases)
        return LexicalConstraint(Spelling.tokens(n_tokens), prefixes, tuple(phrases))
