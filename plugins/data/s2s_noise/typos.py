"""Typing errors: two letters in the wrong order, one too few, one twice, a wrong one."""

from __future__ import annotations

__all__ = ["Typos"]

from typing import TYPE_CHECKING

from s2s.data import noise

if TYPE_CHECKING:
    from random import Random

    from s2s_noise import TyposConfig

LEAST = 3
"""Letters of the shortest word with an error"""


class Typos(noise.Noise):
    """Errors in words of the source; the target stays correct."""

    def __init__(self, config: TyposConfig) -> None:
        super().__init__(config)
        self.rate = config.rate

    def altered(self, src: str, tgt: str, draw: Random) -> tuple[str, str]:
        """The source with errors; unchanged if no word is long enough."""
        words = src.split(" ")
        possible = [n for n, word in enumerate(words) if sum(map(str.isalpha, word)) >= LEAST]
        if not possible:
            return src, tgt
        letters = [letter for letter in src if letter.isalpha()]
        chosen = [n for n in possible if draw.random() < self.rate] or [draw.choice(possible)]
        for n in chosen:
            words[n] = _with_error(words[n], letters, draw)
        return " ".join(words), tgt


def _with_error(word: str, letters: list[str], draw: Random) -> str:
    """The word with one error behind its first letter."""
    _, *places = [i for i, letter in enumerate(word) if letter.isalpha()]
    at = draw.choice(places)
    letter, before, behind = word[at], word[:at], word[at + 1 :]
    way = draw.randrange(4)
    if way == 0 and behind[:1].isalpha():
        return before + behind[0] + letter + behind[1:]
    if way == 1:
        return before + behind
    return before + (letter * 2 if way == 2 else draw.choice(letters)) + behind
