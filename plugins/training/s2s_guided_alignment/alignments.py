"""The alignments that supervise attention: of token ids by an aligner, or of words from a file.

Shapes: S source tokens, T target tokens.
"""

from __future__ import annotations

__all__ = ["LearntAlignments", "WordAlignments", "alignments"]

import hashlib
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from s2s import ConfigError, DataError, Example
from s2s.data import read_lines
from s2s_guided_alignment.diagonal import DiagonalModel
from s2s_guided_alignment.symmetrization import grow_diag_final_and

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from s2s import Encoded, Task
    from s2s_guided_alignment import GuidedAlignmentConfig

    Links = NDArray[np.uint16]
    """Target and source position of each: [n, 2]"""

CHUNK = 1000
"""Pairs that are encoded at once"""
REMEMBERED = 200_000
"""Pairs whose alignments are kept"""


class Alignments(Protocol):
    """Aligns pairs of ids."""

    def __call__(self, src: Sequence[int], tgt: Sequence[int]) -> NDArray[np.bool_]:
        """Ids without eos -> [T, S]"""


def alignments(config: GuidedAlignmentConfig, task: Task) -> Alignments:
    """Those of the files that the options name, or of an aligner that learns from the training pairs."""
    return WordAlignments(config.alignments, task) if config.alignments else LearntAlignments(config, task)


class LearntAlignments:
    """Alignments of both directions of `DiagonalModel`, symmetrised; previous sentences of a source have none."""

    def __init__(self, config: GuidedAlignmentConfig, task: Task) -> None:
        self.task = task
        pairs = [self._pair(pair.src, pair.tgt) for _, pair in islice(_encoded(task), config.pairs)]
        self.forward, self.backward = (DiagonalModel(config.tension, config.null) for _ in range(2))
        self.forward.fit(pairs, task.vocab.tgt, config.iterations)
        self.backward.fit([(tgt, src) for src, tgt in pairs], task.vocab.src, config.iterations)
        self.remembered = lru_cache(REMEMBERED)(self._align)

    def __call__(self, src: Sequence[int], tgt: Sequence[int]) -> NDArray[np.bool_]:
        return _matrix(self.remembered(tuple(src), tuple(tgt)), src, tgt)

    def _align(self, src: tuple[int, ...], tgt: tuple[int, ...]) -> Links:
        own, target = self._pair(src, tgt)
        links = grow_diag_final_and(self.forward.align(own, target), self.backward.align(target, own).T)
        return (np.argwhere(links) + np.array([0, len(src) - len(own)])).astype(np.uint16)

    def _pair(self, src: Sequence[int], tgt: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        own = self.task.cut_context(src, 0) if self.task.context else src
        return np.array(own, np.int64), np.array(tgt, np.int64)


class WordAlignments:
    """Alignments of words from files, as alignments of all their tokens; a pair that noise has altered has none."""

    def __init__(self, files: dict[str, str], task: Task) -> None:
        if task.variation() and task.varied_share() == 1:
            raise ConfigError("objective.alignments: every epoch has the pairs in other tokens; leave out what does so")
        names = [name for name, _ in task.corpora("train")]
        for name in files:
            if name not in names:
                raise ConfigError(f"objective.alignments.{name}: there is no such training corpus; {', '.join(names)}")
        self.links: dict[bytes, Links] = {}
        for name, file in files.items():
            self._read(Path(file), name, task)

    def __call__(self, src: Sequence[int], tgt: Sequence[int]) -> NDArray[np.bool_]:
        """None for a pair of a corpus without a file."""
        return _matrix(self.links.get(_key(src, tgt)), src, tgt)

    def _read(self, path: Path, name: str, task: Task) -> None:
        lines, number = read_lines(path), 0
        for example, pair in _encoded(task, name):
            number += 1
            line = next(lines, None)
            if line is None:
                raise DataError(f"{path} ends before line {number:,}: expected one for each usable pair of {name}")
            words = {tuple(_numbers(one, path, number)) for one in line.split()}
            n_before = len(pair.src) - len(task.cut_context(pair.src, 0)) if task.context else 0
            src = [-1] * n_before + _word_numbers(example.src, task.source_offsets(example.src))
            text = task.detokenize(pair.tgt, example.src)
            tgt = _word_numbers(text, task.target_offsets(pair.tgt, example.src))
            links = [(i, j) for j, e in enumerate(src) for i, f in enumerate(tgt) if (e, f) in words]
            if links:
                self.links[_key(pair.src, pair.tgt)] = np.array(links, np.uint16)
        if next(lines, None) is not None:
            raise DataError(f"{path} continues behind line {number:,}: expected one for each usable pair of {name}")


def _matrix(links: Links | None, src: Sequence[int], tgt: Sequence[int]) -> NDArray[np.bool_]:
    """[n, 2] -> [T, S]"""
    matrix = np.zeros((len(tgt), len(src)), np.bool_)
    if links is not None:
        matrix[links[:, 0], links[:, 1]] = True
    return matrix


def _word_numbers(text: str, offsets: Sequence[tuple[int, int] | None]) -> list[int]:
    """The number of the word to which each token belongs, by its characters; -1: to none. A blank begins a word."""
    return [-1 if one is None else len(text[: one[1]].split()) - (not text[slice(*one)].isspace()) for one in offsets]


def _numbers(link: str, path: Path, number: int) -> list[int]:
    """Word numbers of a link such as 0-1, source first."""
    parts = link.split("-")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise DataError(f"{path}:{number}: {link!r} is no link such as 0-1, source word first")
    return [int(part) for part in parts]


def _key(src: Sequence[int], tgt: Sequence[int]) -> bytes:
    ids = np.array([len(src), *src, *tgt], np.int64)
    return hashlib.blake2b(ids.tobytes(), digest_size=12).digest()


def _encoded(task: Task, corpus: str = "") -> Iterator[tuple[Example, Encoded]]:
    """The usable training pairs of one corpus, or of all, and their ids."""
    names = [corpus] if corpus else [name for name, _ in task.corpora("train")]
    usable = (one for name in names for one in task.examples("train", name) if isinstance(one, Example))
    while chunk := list(islice(usable, CHUNK)):
        yield from zip(chunk, task.encode(chunk), strict=True)
