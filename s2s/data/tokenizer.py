"""The contract of a tokeniser, and the special ids that most of them use. Plugins provide the tokenisers."""

from __future__ import annotations

__all__ = ["Tokenizer", "TokenizerKind", "tokenizer_kind"]

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from s2s.compose.conversion import build_choice
from s2s.compose.earlier import as_recorded
from s2s.errors import ConfigError, DataError
from s2s.text.offsets import offsets_by_prefix, offsets_by_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from s2s.registry import Registry
    from s2s.text.offsets import Offset
    from s2s.vocab import Side

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""The special tokens of most tokenisers, by their ids"""


class Tokenizer(ABC):
    """Text to ids and back, using what `TokenizerKind.learn` wrote; without bos and eos."""

    pad, unk, bos, eos = range(4)
    """Special ids, which a task takes over into its `Vocab`"""
    starting_tokens: Sequence[int] = ()
    """The tokens with which decoding starts; empty: bos"""
    before: Sequence[int] = ()
    """Tokens before every source, such as the code of its language"""
    after: Sequence[int] = ()
    """Tokens behind every source"""
    src_eos = -1
    """The token that ends a source behind those, if it is another one than eos; -1: eos"""
    library = ""
    """The library that can also read its file, such as sentencepiece, for exporters"""
    path: Path
    pieces: list[str]
    """The tokens in the order of their ids"""

    @property
    def library_file(self) -> Path:
        """The file that `library` reads."""
        return self.path

    @property
    def size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.pieces)

    @property
    def special(self) -> tuple[int, int, int, int]:
        """pad, unk, bos and eos."""
        return self.pad, self.unk, self.bos, self.eos

    @cached_property
    def identity(self) -> str:
        """The sha256 of the tokens, which unlike the file's does not depend on stored settings and paths."""
        return hashlib.sha256("\n".join(self.pieces).encode()).hexdigest()

    def id_of(self, symbol: str) -> int:
        """The id of a token, such as a symbol that was given to `learn`; raises DataError if there is none.

        symbol: the token's text.
        """
        if symbol not in self._ids:
            raise DataError(f"{self.path}: no token {symbol!r}; name it when the vocabulary is learnt")
        return self._ids[symbol]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}

    def for_side(self, side: Side) -> Tokenizer:
        """As it is used for one side; override it if sides segment text differently.

        side: src or tgt.
        """
        return self

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line; several threads may call it at once.

        lines: texts of one side.
        """

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are skipped, unk becomes ⁇.

        ids: without bos and eos.
        """

    def covers(self, text: str) -> bool:
        """Whether tokens spell a text, without unk, and without single bytes where others spell whole characters.

        True if tokens are words: unknown ones are then what unk stands for, in training as well.

        text: a text of one side.
        """
        return self.unk not in self.encode([text])[0]

    def offsets(self, text: str) -> Sequence[Offset]:
        """Which characters of a text each of its tokens stands for; the default gives each its word between blanks."""
        return offsets_by_words(text, self.encode)

    def decoded_offsets(self, ids: Sequence[int]) -> Sequence[Offset]:
        """Which characters each token adds to the text that `decode` gives; the default decodes every prefix."""
        return offsets_by_prefix([self.decode(ids[:n]) for n in range(len(ids) + 1)])

    @cached_property
    def spellings(self) -> list[bytes] | None:
        """What each token adds to a text, in UTF-8, which may be a part of a character; empty for special tokens.

        None: not known. The default decodes each token behind another, which does not show parts of characters.
        """
        ordinary = [i for i in range(self.size) if i not in self.special]
        before = next((i for i in ordinary if self.decode([i]).strip().isalnum()), None)
        if before is None:
            return None
        start, spellings = self.decode([before]), [b""] * self.size
        for i in ordinary:
            text = self.decode([before, i])
            if not text.startswith(start) or "\ufffd" in text:
                return None
            spellings[i] = text[len(start) :].encode()
        return spellings

    def spell(self, text: str) -> bytes:
        """A text as its tokens spell it behind others; raises DataError for symbols that no token has."""
        (ids,) = self.encode([text])
        if self.unk in ids:
            raise DataError(f"{text!r} has symbols that are not in the vocabulary")
        spellings = self.spellings or []
        return b"".join(spellings[i] for i in ids)

    def split(self, token: str) -> list[int]:
        """Ids of the fewest tokens that spell a token of another tokeniser; empty: none do.

        token: the other tokeniser's text of it.
        """
        best: list[list[int] | None] = [[]]
        for end in range(1, len(token) + 1):
            ways = [
                [*before, self._ids[token[begin:end]]]
                for begin, before in enumerate(best)
                if before is not None and self._ids.get(token[begin:end], self.unk) not in self.special
            ]
            best.append(min(ways, key=len, default=None))
        return best[-1] or []

    def sampler(self, alpha: float) -> Callable[[Sequence[int], int], list[int]]:
        """A function of only ids and a seed, the same in every process: the ids of the same text in other tokens.

        alpha: how far from the most likely tokens, as task.subword_sampling says.
        """
        raise ConfigError(f"task.subword_sampling={alpha}: this tokeniser has one way to write a text; leave it out")


class TokenizerKind(ABC):
    """Learns and loads tokenisers of one kind: a built entry of the group `tokenizer`, whose options are its own."""

    recorded: Any = ""
    """The choice of this kind with its options, for the settings on which prepared data depend"""
    LEAST_NEW = 10
    """Occurrences in a text for which `extend` adds a token"""
    learns = True
    """Whether `learn` makes a vocabulary of the size asked for; False: the options name a complete one."""

    @abstractmethod
    def learn(
        self, lines: Iterable[str], path: Path, size: int, *, symbols: Sequence[str] = (), option: str
    ) -> str | None:
        """Write to `path`, which does not exist, a file or a folder from which `load` makes a tokeniser.

        size: number of its tokens, special ones and `symbols` included. symbols: texts of which each is one token
        wherever it occurs, such as the tag <2de>; `check_symbols` refuses what cannot be one. option: the option that
        sets the size, for error messages.

        Returns which sample of the lines it has used, for the first screen; empty or None: all of them.

        lines: the training text. path: a file or folder of the tokeniser.
        """

    def extend(self, lines: Iterable[str], path: Path, n_tokens: int) -> None:
        """Add to the tokeniser at `path`, behind its own, at most `n_tokens` tokens that occur LEAST_NEW times.

        Raises ConfigError for a kind whose vocabulary is complete.

        n_tokens: most tokens to add.
        """
        raise ConfigError(f"data.new_tokens={n_tokens}: task.subword names a complete vocabulary; leave it out")

    def prune(self, lines: Iterable[str], path: Path, *, symbols: Sequence[str] = ()) -> Mapping[Side, Sequence[int]]:
        """Leave the tokeniser at `path` with the tokens of these texts, single characters, special tokens and symbols.

        Returns the ids that the tokens of each side had, in the order of their new ids. Raises ConfigError for a kind
        that cannot.

        lines: may be read once for each side.
        """
        raise ConfigError("this tokeniser cannot be pruned; leave out vocab")

    def add(self, tokens: Sequence[str], path: Path) -> Mapping[Side, Sequence[Sequence[int]]]:
        """Make each of these texts a token of the tokeniser at `path`, behind its own.

        Returns, for each new token of a side in the order of their ids, the ids of the tokens that spelt it, or unk.
        Raises ConfigError for a kind that cannot.

        tokens: texts without white space; one that is a token already is not new.
        """
        raise ConfigError("this tokeniser cannot be extended; leave out tokens and characters")

    @staticmethod
    def check_symbols(symbols: Iterable[str]) -> None:
        """Raise ConfigError for a symbol that no text can contain: call it in `learn`, before the lines are read."""
        for symbol in symbols:
            if not symbol or any(character.isspace() for character in symbol):
                raise ConfigError(f"task.subword.symbols: {symbol!r} is empty or has white space; give texts without")
            if symbol in SPECIAL:
                raise ConfigError(f"task.subword.symbols: {symbol} is a special token already; choose another text")

    @abstractmethod
    def load(self, path: Path) -> Tokenizer:
        """Read a tokeniser; raises DataError if it is missing or damaged."""

    def files(self) -> Sequence[Path]:
        """Files that the options name: when their contents change, the corpora are prepared again."""
        return ()


def tokenizer_kind(
    value: Any, registry: Registry, option: str = "task.subword", defaults: Mapping[str, Any] = MappingProxyType({})
) -> TokenizerKind:
    """The kind of tokenisers that an option names, alone or with options: `bpe`, `{name: bpe, byte_fallback: true}`.

    defaults: options that the task has for its tokenisers, used where `value` does not set them.
    """
    built: TokenizerKind = build_choice(value, "tokenizer", registry, option, defaults=defaults)
    built.recorded = as_recorded(value, "tokenizer", registry)
    return built
