"""What the tokenisers of published models have in common: the tokens that they put around texts."""

from __future__ import annotations

__all__ = ["PublishedTokenizer"]

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from s2s import ConfigError
from s2s.data import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s_tokenizers import PublishedConfig


class PublishedTokenizer(Tokenizer):
    """Tokens with the ids that they have in a published model."""

    def _put_around(self, config: PublishedConfig) -> None:
        """Take the tokens around texts from the options; raises ConfigError for one that is no token."""
        self.starting_tokens = [self._token(token, "start") for token in config.start]
        self.before = [self._token(token, "before") for token in config.before]
        *self.after, self.src_eos = [self._token(token, "end") for token in config.end] or [-1]

    def _with_unused(self, pieces: Sequence[str], size: int) -> list[str]:
        """The tokens, with names for rows of the model that have none; raises ConfigError if there are fewer rows."""
        if size and size < len(pieces):
            raise ConfigError(f"task.subword.size={size:,}: the tokeniser has {len(pieces):,} tokens")
        return [*pieces, *(f"<unused {i}>" for i in range(len(pieces), size))]

    def _token(self, token: str, option: str) -> int:
        if token not in self._ids:
            raise ConfigError(f"task.subword.{option}: {self.path} has no token {token}")
        return self._ids[token]

    @cached_property
    def identity(self) -> str:
        """Of everything that determines ids, and of the tokens around texts."""
        return self._identity([*self.special, *self.starting_tokens], [*self.before, -1, *self.after, self.src_eos])

    @abstractmethod
    def _identity(self, targets: Sequence[int], sources: Sequence[int]) -> str:
        """The sha256 of the tokeniser, with the special ids of targets and those around sources."""
