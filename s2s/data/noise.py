"""Noise: how training alters pairs of texts, so that a model learns to read texts as people write them.

The core's own noise is symbols without a token. Otherwise the unknown token would never occur in training where the
tokeniser was learnt on the same text, and its embedding would stay as it was initialised; and so would bytes.
"""

from __future__ import annotations

__all__ = ["Noise", "NoiseConfig", "UnknownSymbols"]

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from s2s.config.ranges import Range, check_ranges
from s2s.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from random import Random

    from s2s.data.tokenizer import Tokenizer


RANGES = (
    (0x21, 0x7E),  # ASCII
    (0xA1, 0x17F),  # Latin letters and signs
    (0x391, 0x3C9),  # Greek
    (0x410, 0x44F),  # Cyrillic
    (0x5D0, 0x5EA),  # Hebrew
    (0x621, 0x64A),  # Arabic
    (0x905, 0x939),  # Devanagari
    (0xE01, 0xE2E),  # Thai
    (0x2010, 0x2027),  # dashes, quotes, bullets
    (0x20A0, 0x20BF),  # currencies
    (0x2190, 0x22FF),  # arrows, operators
    (0x25A0, 0x27BF),  # shapes, pictures
    (0x3041, 0x30FA),  # kana
    (0x4E00, 0x9FA5),  # Han
    (0xAC00, 0xD7A3),  # Hangul
    (0x1F300, 0x1F64F),  # emoji
    (0x1F900, 0x1F9FF),
)
N_TRIES = 8
SPELT = 2
"""A symbol in more tokens, of which one may be a blank, is spelt in parts, such as bytes"""
IN_WORD = 0.4
"""Share of the symbols that stand in a word; the others are at the edges of the text, or between words"""


@dataclass(kw_only=True)
class NoiseConfig(Choice):
    """Noise on training pairs."""

    share: float = 0.05
    """Share of the training pairs that are altered, other ones in every epoch."""

    def __post_init__(self) -> None:
        check_ranges(f"task.noise.{self.name}", self, share=Range(0, 1))


class Noise(ABC):
    """One kind of noise, on pairs that are drawn for it."""

    symbols: Sequence[str] = ()
    """Texts that it adds, of which each has to be one token"""

    def __init__(self, config: NoiseConfig) -> None:
        self.share = config.share

    def files(self) -> Sequence[Path]:
        """Files that its options name: when their contents change, the corpora are prepared again."""
        return ()

    def learn(self, pairs: Iterable[tuple[str, str]], path: Path) -> None:  # noqa: B027  most have nothing to learn
        """Write to `path`, beside the tokenisers and before these are learnt, what `load` reads; the default: nothing.

        pairs: all usable training pairs.
        """

    def load(self, path: Path) -> None:  # noqa: B027
        """Take over what `learn` wrote, which is read no earlier than it is needed."""

    @abstractmethod
    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """A pair of texts altered, by nothing but the texts and the random numbers of `draw`."""


class UnknownSymbols(Noise):
    """Puts a symbol of no token into a source.

    The target stays as it is, for an unknown token could only be copied from the input, which is done after the search;
    but if both sides spell the symbol, in bytes, one at the edge of the source is at the same edge of the target.
    """

    def __init__(self, share: float, src: Tokenizer, tgt: Tokenizer | None = None) -> None:
        """tgt: None: targets always stay as they are."""
        super().__init__(NoiseConfig(name="unknown_symbols", share=share))
        self.src, self.tgt = src, tgt
        self._kind = lru_cache(100_000)(self._find_kind)

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """The source with one to three symbols, or one within a word; unchanged if all that were drawn have tokens."""
        if not (symbols := self._symbols(draw)) or not src:
            return src, tgt
        if draw.random() < IN_WORD:
            return self._in_word(src, symbols[0], draw), tgt
        words = src.split(" ")
        if (where := draw.randrange(4)) == 3 and len(words) > 1:
            words.insert(draw.randrange(1, len(words)), symbols)
            return " ".join(words), tgt
        blank = " " * draw.randrange(2)
        copied = self.tgt is not None and all(map(self._is_spelt, symbols))
        return _at_edges(src, symbols, blank, where), _at_edges(tgt, symbols, blank, where) if copied else tgt

    def in_word(self, words: list[str], draw: Random) -> list[str]:
        """The words, with a symbol in one of them, or in its place."""
        symbols = self._symbols(draw)
        n = draw.randrange(len(words))
        word = symbols if draw.random() < 0.3 else self._in_word(words[n], symbols[:1], draw)
        return [*words[:n], word, *words[n + 1 :]] if symbols else words

    def _in_word(self, text: str, symbol: str, draw: Random) -> str:
        """The text with a symbol between two letters of a word, or in place of the second.

        In a text without two letters side by side: before its first character, or in place of it.
        """
        inner = [i for i in range(1, len(text)) if not (text[i - 1].isspace() or text[i].isspace())] or [0]
        at = draw.choice(inner)
        return text[:at] + symbol + text[at + draw.randrange(2) :]

    def _symbols(self, draw: Random) -> str:
        """One to three symbols of which none has a token; empty if none was drawn."""
        symbols = (chr(draw.randint(*draw.choice(RANGES))) for _ in range(N_TRIES))
        return "".join(symbol for symbol in symbols if self._kind(symbol))[: draw.choice((1, 1, 2, 3))]

    def _is_spelt(self, symbol: str) -> bool:
        return self._kind(symbol) == "spelt"

    def _find_kind(self, symbol: str) -> str:
        """Empty for a symbol with a token in sources; spelt, if each side writes it in several; else unknown."""
        src, *tgt = (side.encode([symbol])[0] for side in (self.src, self.tgt) if side)
        if self.src.unk in src:
            return "unknown"
        if len(src) <= SPELT:
            return ""
        return "spelt" if all(len(ids) > SPELT and self.src.unk not in ids for ids in tgt) else "unknown"


def _at_edges(text: str, symbols: str, blank: str, where: int) -> str:
    """The text behind symbols, before them, or between them."""
    before, behind = where != 1, where != 0
    return f"{symbols}{blank}" * before + text + f"{blank}{symbols}" * behind
