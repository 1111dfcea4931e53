"""What the tokenisers of published models have in common: the tokens that they put around texts."""

from __future__ import annotations

__all__ = ["MAX_TOKENS", "PublishedTokenizer", "read_model", "unused_tokens"]

import re
from abc import abstractmethod
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from s2s import ConfigError, DataError
from s2s.data import Tokenizer, missing_file_error
from s2s.io import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set
    from pathlib import Path

    from s2s_tokenizers import PublishedConfig
    from s2s_tokenizers.extending import NewToken

UNUSED = re.compile(r"<unused \d+>")
BYTE = re.compile(r"<0x[0-9A-F]{2}>")
WORD_BEGINS = "▁Ġ"
MAX_TOKENS = 1 << 22
"""A file may give a token any id below 2^32, and there is a name for each id up to it"""
FIRST = 8
"""Ids below it are of special tokens"""


class PublishedTokenizer(Tokenizer):
    """Tokens with the ids that they have in a published model."""

    def _put_around(self, config: PublishedConfig) -> None:
        """Take the tokens around texts from the options; raises ConfigError for one that is no token."""
        self.starting_tokens = [self._token(token, "start") for token in config.start]
        self.before = [self._token(token, "before") for token in config.before]
        *self.after, self.src_eos = [self._token(token, "end") for token in config.end] or [-1]

    @cached_property
    def _skipped(self) -> Set[int]:
        """Ids that add nothing to a text: special ones but unk, and rows of the model without a token."""
        unused = {i for i, piece in enumerate(self.pieces) if UNUSED.fullmatch(piece)}
        return {*self.special, *unused} - {self.unk}

    def _token(self, token: str, option: str) -> int:
        if token not in self._ids:
            raise ConfigError(f"task.subword.{option}: {self.path} has no token {token}")
        return self._ids[token]

    @cached_property
    def identity(self) -> str:
        """Of everything that determines ids, and of the tokens around texts."""
        return self._identity([*self.special, *self.starting_tokens], [*self.before, -1, *self.after, self.src_eos])

    def kept(self, lines: Iterable[str], sides: Sequence[Tokenizer], symbols: Iterable[str]) -> set[int]:
        """Symbols, and tokens of these texts as each side cuts them, of single characters or bytes, around texts."""
        around = {*self.special, *self.starting_tokens, *self.before, *self.after, self.src_eos} - {-1}
        if self.pad < FIRST:  # M2M-100 counts positions from the id of padding, which stays what it is
            around |= {*range(self.pad)}
        around |= {self._ids[symbol] for symbol in symbols if symbol in self._ids}
        shown = ((i, piece.lstrip(WORD_BEGINS)) for i, piece in enumerate(self.pieces))
        single = {i for i, piece in shown if len(piece) <= 1 or BYTE.fullmatch(piece)}
        used, waiting = set[int](), iter(lines)
        while batch := list(islice(waiting, 1000)):
            for side in sides:
                used.update(*side.encode(batch))
        return around | single | used

    def lacks(self, text: str) -> bool:
        """Whether a character has no token of its own, or a longer text not one for all of it."""
        (ids,) = self.encode([text])
        if len(text) > 1:
            return len(ids) != 1 or self.unk in ids
        return self.unk in ids or any(BYTE.fullmatch(self.pieces[i]) for i in ids)

    def rows_of(self, new: Iterable[NewToken]) -> list[list[int]]:
        """Ids of the tokens that spelt each of the new ones, which may be made of one another."""
        rows: dict[str, list[int]] = {}
        for token in new:
            spelt = [
                rows.get(part) or ([self._ids[part]] if part in self._ids else self.split(part)) for part in token.parts
            ]
            rows[token.piece] = [i for ids in spelt for i in ids] or [self.unk]
        return list(rows.values())

    @abstractmethod
    def _identity(self, targets: Sequence[int], sources: Sequence[int]) -> str:
        """The sha256 of the tokeniser, with the special ids of targets and those around sources."""


def unused_tokens(n_tokens: int, size: int) -> list[str]:
    """Names of the rows of a model that have no token; raises ConfigError if there are fewer rows than tokens, or more
    than MAX_TOKENS."""
    if size > MAX_TOKENS:
        raise ConfigError(f"task.subword.size={size:,}: at most {MAX_TOKENS:,} tokens are read")
    if size and size < n_tokens:
        raise ConfigError(f"task.subword.size={size:,}: the tokeniser has {n_tokens:,} tokens")
    return [f"<unused {i}>" for i in range(n_tokens, size)]


def read_model(path: Path) -> bytes:
    """A file of a tokeniser; raises DataError if it is missing or cannot be read."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
