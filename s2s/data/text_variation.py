"""How training encodes a pair of texts anew in every epoch: with noise, then in other subwords."""

from __future__ import annotations

__all__ = ["TextVariation", "build_noises", "learn_noises", "load_noises", "noisy"]

from random import Random
from typing import TYPE_CHECKING

from s2s.compose.conversion import build_choice
from s2s.errors import ConfigError
from s2s.task import Encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from s2s.data.noise import Noise
    from s2s.data.text_config import TextConfig
    from s2s.data.tokenizer import Tokenizer
    from s2s.registry import Registry

SEED_BITS = 32
"""Bits of a seed for each side"""


def build_noises(config: TextConfig, registry: Registry) -> list[Noise]:
    """The kinds of noise that task.noise names; ConfigError if all shares together are too large."""
    noises: list[Noise] = [
        build_choice(one, "noise", registry, f"task.noise[{n}]") for n, one in enumerate(config.noise)
    ]
    share = config.unknown_symbols + sum(noise.share for noise in noises)
    if share > 1:
        raise ConfigError(f"task.unknown_symbols and task.noise alter {share:g} of the pairs: at most 1 is possible")
    return noises


def learn_noises(noises: Sequence[Noise], pairs: Callable[[], Iterable[tuple[str, str]]], directory: Path) -> None:
    """Let each kind of noise learn from the training pairs, and keep what it learns in a folder."""
    for n, noise in enumerate(noises):
        noise.learn(pairs(), directory / f"noise.{n}")
    load_noises(noises, directory)


def load_noises(noises: Sequence[Noise], directory: Path) -> None:
    """Let each kind of noise take over what it has learnt."""
    for n, noise in enumerate(noises):
        noise.load(directory / f"noise.{n}")


class TextVariation:
    """A pair of ids in another form, which depends on the ids and on a seed of 64 bits alone.

    At most one kind of noise alters a pair. A side whose ids are not those of their text stays as it is: one with an
    unknown token, or behind the code of a language.
    """

    def __init__(
        self,
        src: Tokenizer,
        tgt: Tokenizer,
        noises: Sequence[Noise] = (),
        samplers: Sequence[Callable[[Sequence[int], int], list[int]]] = (),
        texts_of: Callable[[Encoded], tuple[slice, slice]] = lambda _: (slice(None), slice(None)),
        cased: Callable[[str], str] = str,
    ) -> None:
        """samplers: of other subwords, of source and target; empty: none.

        texts_of: where the texts of a pair are, between tokens that no noise alters, such as marks.
        cased: a text in the case in which the task encodes it.
        """
        self.src, self.tgt, self.noises, self.samplers, self.texts_of = src, tgt, noises, samplers, texts_of
        self.cased = cased

    @property
    def share(self) -> float:
        """The share of the seeds, from 0 on, with which pairs may change."""
        return 1.0 if self.samplers else min(1.0, sum(noise.share for noise in self.noises))

    def __call__(self, pair: Encoded, seed: int) -> Encoded:
        """The pair under a seed."""
        if noise := _chosen(self.noises, seed / 2**64):
            pair = self._altered(pair, noise, Random(seed))
        if not self.samplers:
            return pair
        (src, tgt), (of_src, of_tgt) = self.samplers, self.texts_of(pair)
        return Encoded(
            _replaced(pair.src, of_src, src(pair.src[of_src], seed)),
            _replaced(pair.tgt, of_tgt, tgt(pair.tgt[of_tgt], seed >> SEED_BITS)),
        )

    def _altered(self, pair: Encoded, noise: Noise, draw: Random) -> Encoded:
        of_src, of_tgt = self.texts_of(pair)
        ids = pair.src[of_src], pair.tgt[of_tgt]
        src, tgt = self.src.decode(ids[0]), self.tgt.decode(ids[1])
        new_src, new_tgt = map(self.cased, noise.altered(src, tgt, draw))
        src_ids, tgt_ids = _ids(self.src, ids[0], src, new_src), _ids(self.tgt, ids[1], tgt, new_tgt)
        if not src_ids or not tgt_ids:
            return pair
        return Encoded(_replaced(pair.src, of_src, src_ids), _replaced(pair.tgt, of_tgt, tgt_ids))


def _replaced(ids: Sequence[int], text: slice, new: Sequence[int]) -> list[int]:
    """The ids with others in the place of a text."""
    changed = list(ids)
    changed[text] = new
    return changed


def noisy(texts: tuple[str, str], noises: Sequence[Noise], number: int) -> tuple[str, str]:
    """Source and target of the pair of this number, with noise if it is among those that any kind alters."""
    if not noises:
        return texts
    draw = Random(number)
    noise = _chosen(noises, draw.random())
    return noise.altered(*texts, draw) if noise else texts


def _chosen(noises: Sequence[Noise], position: float) -> Noise | None:
    """The noise at a position from 0 to 1, of which each has its share; None behind them all."""
    for noise in noises:
        if position < noise.share:
            return noise
        position -= noise.share
    return None


def _ids(tokenizer: Tokenizer, ids: Sequence[int], text: str, altered: str) -> list[int]:
    """The ids of the altered text; empty if the ids are not those of the text that was altered."""
    if altered == text:
        return list(ids)
    before, after = tokenizer.encode([text, altered])
    return after if before == list(ids) and tokenizer.unk not in before else []
