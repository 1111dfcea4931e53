"""Tokens that are a list: the characters of a text, or its words between blanks."""

from __future__ import annotations

__all__ = ["CharacterKind", "Characters", "Listed", "WhitespaceKind", "Words"]

import json
import re
from collections import Counter
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from s2s import ConfigError, DataError
from s2s.data import Tokenizer, TokenizerKind, invisible, missing_file_error
from s2s.io import read_json, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s_tokenizers import ListedConfig

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
UNKNOWN = "⁇"


class Listed(Tokenizer):
    """Ids are positions in a list of tokens: the special ones, the symbols, then the others."""

    separator = ""
    """Between two tokens of a text"""
    character = r"(?s:.)"
    """A regular expression of one character of a token"""
    most = ""
    """How many of them a token has, as in a regular expression: empty for one, + for any number"""

    def __init__(
        self, path: Path, pieces: Sequence[str], symbols: Sequence[str] = (), *, drops_invisible: bool = False
    ) -> None:
        """drops_invisible: whether invisible characters without meaning are left out of every text."""
        self.path, self.pieces, self.drops_invisible = path, list(pieces), drops_invisible
        self._written = {piece: i for i, piece in enumerate(pieces) if i >= len(SPECIAL)}
        symbol = "|".join(map(re.escape, sorted(symbols, key=len, reverse=True)))
        other = f"(?:(?!{symbol}){self.character}){self.most}" if symbol else f"{self.character}{self.most}"
        self._token = re.compile(f"{symbol}|{other}" if symbol else other)

    def tokens(self, line: str) -> list[str]:
        """The tokens of a text, as text."""
        return self._token.findall(invisible.visible(line) if self.drops_invisible else line)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of every line, unk for tokens that are not listed."""
        return [[self._written.get(token, self.unk) for token in self.tokens(line)] for line in lines]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Which characters of a text each of its tokens is."""
        return [token.span() for token in self._token.finditer(text)]

    @cached_property
    def spellings(self) -> list[bytes]:
        """What each token adds to a text, behind a separator."""
        texts = [(self.separator + piece).encode() for piece in self.pieces]
        return [b"" if i < len(SPECIAL) else text for i, text in enumerate(texts)]

    def spell(self, text: str) -> bytes:
        """A text with a separator before every token, listed or not: its last may be the beginning of a listed one."""
        return "".join(self.separator + token for token in self.tokens(text)).encode(errors="replace")

    def decode(self, ids: Sequence[int]) -> str:
        """The tokens joined; special ones are skipped, unk becomes ⁇."""
        shown = (UNKNOWN if i == self.unk else self.pieces[i] for i in ids if i == self.unk or i >= len(SPECIAL))
        return self.separator.join(shown)


class Characters(Listed):
    """A token for each character."""


class Words(Listed):
    """A token for each run of characters between blanks or symbols."""

    separator, character, most = " ", r"\S", "+"

    def covers(self, text: str) -> bool:
        """Words that are not listed are what unk stands for, in training as well."""
        return True


class _ListedKind(TokenizerKind):
    """Learns the most frequent tokens, and writes them to a JSON file."""

    tokenizer: type[Listed]

    def __init__(self, config: ListedConfig) -> None:
        self.config = config

    def learn(self, lines: Iterable[str], path: Path, size: int, *, symbols: Sequence[str] = (), option: str) -> None:
        """List at most `size` tokens; of two that are equally frequent, the one that comes first in the text."""
        whole = list(dict.fromkeys([*symbols, *self.config.symbols]))
        self.check_symbols(whole)
        n_others = size - len(SPECIAL) - len(whole)
        if n_others < 1:
            raise ConfigError(f"{option}={size} has no room for tokens: {size - n_others} are special or symbols")
        drop = self.config.invisible == "drop"
        counts = self._counted(lines, self.tokenizer(path, (), whole, drops_invisible=drop), whole)
        if not counts:
            raise DataError(f"{option}: there is no text to learn a vocabulary from; check the training files")
        pieces = [*SPECIAL, *whole, *(token for token, _ in counts.most_common(n_others))]
        written = {"symbols": whole, "pieces": pieces, "invisible": self.config.invisible}
        write_file(path, json.dumps(written).encode() + b"\n")

    def extend(self, lines: Iterable[str], path: Path, n_tokens: int) -> None:
        """List the most frequent tokens that are not listed yet behind the others."""
        content, known = read_json(path), self.load(path)
        counts = self._counted(lines, known, known.pieces)
        new = [token for token, n in counts.most_common(n_tokens) if n >= self.LEAST_NEW]
        write_file(path, json.dumps({**content, "pieces": [*known.pieces, *new]}).encode() + b"\n")

    def load(self, path: Path) -> Listed:
        """Read the list."""
        try:
            content = read_json(path)
            symbols, pieces = ([str(token) for token in content[key]] for key in ("symbols", "pieces"))
        except FileNotFoundError:
            raise missing_file_error(path) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: no list of tokens ({error}); prepare again") from None
        if tuple(pieces[: len(SPECIAL)]) != SPECIAL:
            raise DataError(f"{path}: its list of tokens does not begin with {', '.join(SPECIAL)}; prepare again")
        return self.tokenizer(path, pieces, symbols, drops_invisible=content.get("invisible") == "drop")

    @staticmethod
    def _counted(lines: Iterable[str], tokenizer: Listed, symbols: Sequence[str]) -> Counter[str]:
        taken = {*SPECIAL, *symbols}
        tokens: Iterator[str] = chain.from_iterable(map(tokenizer.tokens, lines))
        return Counter(token for token in tokens if token not in taken)


class CharacterKind(_ListedKind):
    """Characters."""

    tokenizer = Characters


class WhitespaceKind(_ListedKind):
    """Words between blanks."""

    tokenizer = Words
