"""The contract of a tokeniser, and the special ids that all of them share. Plugins provide the tokenisers."""

from __future__ import annotations

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer", "TokenizerKind", "tokenizer_kind"]

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from s2s.registry import Registry

PAD, UNK, BOS, EOS = range(4)


class Tokenizer(ABC):
    """Text to ids and back, using what `TokenizerKind.learn` wrote; without bos and eos."""

    pad, unk, bos, eos = PAD, UNK, BOS, EOS
    library = ""
    """The library that can also read its file, such as sentencepiece, for exporters"""
    path: Path
    pieces: list[str]
    """The tokens in the order of their ids, the special ones first"""

    @property
    def size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.pieces)

    @cached_property
    def identity(self) -> str:
        """The sha256 of the tokens, which unlike the file's does not depend on stored settings and paths."""
        return hashlib.sha256("\n".join(self.pieces).encode()).hexdigest()

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line; several threads may call it at once."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped, unk becomes ⁇."""

    @abstractmethod
    def words(self, ids: Sequence[int]) -> list[int]:
        """For each token the index of its word in the text that `decode` gives."""

    def sampler(self, alpha: float) -> Callable[[Sequence[int], int], list[int]]:
        """A function of only ids and a seed, the same in every process: the ids of the same text in other tokens."""
        raise ConfigError(f"task.subword_sampling={alpha}: this tokeniser has one way to write a text; leave it out")


class TokenizerKind(Protocol):
    """A built entry of the group `tokenizer`."""

    def learn(
        self, lines: Iterable[str], path: Path, size: int, *, character_coverage: float = 1.0, option: str
    ) -> None:
        """Make a tokeniser of `size` tokens, the four special ones included, and write it to `path` atomically.

        `option` is the name of the option that sets the size, for error messages.
        """

    def load(self, path: Path) -> Tokenizer:
        """Read a tokeniser; raises DataError if it is missing or damaged."""


def tokenizer_kind(name: str, registry: Registry, option: str = "task.subword") -> TokenizerKind:
    """The registered kind of tokenisers that an option names."""
    known = registry.names("tokenizer")
    if name not in known:
        raise ConfigError(f"{option}={name}: no such tokeniser.{did_you_mean(name, known)}{registry.absent_hint()}")
    built: TokenizerKind = registry.build_default("tokenizer", name)
    return built
