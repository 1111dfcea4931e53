"""Where the pairs come from: files of the user's own, or the built-in corpus."""

from __future__ import annotations

__all__ = ["BuiltinCorpora", "Corpora", "FileCorpora"]

import zlib
from abc import ABC, abstractmethod
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from s2s.data.text import CorpusFiles, parse_corpora, read_pairs
from s2s.errors import ConfigError
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s_translation import TranslationConfig

WATCHED = ("train", "valid")  # a test set takes no part in what is prepared
HELD_OUT = 1000  # pairs in the built-in valid and test


class Corpora(ABC):
    """Named corpora of pairs for every split."""

    def __init__(self, config: TranslationConfig) -> None:
        self.config = config

    @abstractmethod
    def names(self, split: str) -> Sequence[tuple[str, float]]:
        """Name and weight of every corpus of a split."""

    @abstractmethod
    def read(self, split: str, name: str) -> Iterator[Example | Rejected]:
        """The pairs of one corpus, in order."""

    @abstractmethod
    def files(self) -> Sequence[Path]:
        """What is read, for its contents to be watched."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the pairs depend on beside the files."""

    @abstractmethod
    def describe(self) -> Iterable[str]:
        """What a user may not expect."""


class FileCorpora(Corpora):
    """Parallel files, TSV or JSONL, as `task.train`, `task.valid` and `task.test` name them."""

    def of(self, split: str) -> dict[str, CorpusFiles]:
        """The corpora of a split by their names."""
        return {c.name: c for c in parse_corpora(getattr(self.config, split), f"task.{split}")}

    def names(self, split: str) -> Sequence[tuple[str, float]]:
        return [(c.name, c.weight) for c in self.of(split).values()]

    def read(self, split: str, name: str) -> Iterator[Example | Rejected]:
        return read_pairs(self.of(split)[name].files, self.config.invalid)

    def files(self) -> Sequence[Path]:
        return [file for split in WATCHED for corpus in self.of(split).values() for file in corpus.files]

    def settings(self) -> dict[str, Any]:
        return {"invalid": self.config.invalid}

    def describe(self) -> Iterable[str]:
        if not self.config.valid:
            yield "no development set: give task.valid=[source,target] to have the best checkpoint kept"


class BuiltinCorpora(Corpora):
    """The corpus of the built-in grammar, in either direction.

    A pair's split follows from its source sentence, so that no sentence to be judged on was trained on.
    """

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        self.held_out: dict[str, list[Example]] = {}

    @property
    def reverse(self) -> bool:
        """Whether German is the source."""
        asked = self.config.src_lang, self.config.tgt_lang
        for src, tgt in (("en", "de"), ("de", "en")):
            if asked[0] in ("", src) and asked[1] in ("", tgt):
                return src == "de"
        raise ConfigError(
            f"task.src_lang={asked[0]} task.tgt_lang={asked[1]}: the built-in corpus has en and de; "
            "for other languages give task.train=[source,target]"
        )

    def names(self, split: str) -> Sequence[tuple[str, float]]:
        return [("builtin", 1.0)]

    def read(self, split: str, name: str) -> Iterator[Example | Rejected]:
        if split == "train":
            yield from self._take(split, self.config.pairs)
            return
        if split not in self.held_out:  # read at every validation, and only one pair in ten is of the split
            self.held_out[split] = list(self._take(split, HELD_OUT))
        yield from self.held_out[split]

    def _take(self, split: str, n: int) -> Iterator[Example]:
        return islice((e for e in self._all() if split_of(e.src) == split), n)

    def _all(self) -> Iterator[Example]:
        """All pairs that the grammar gives, without end."""
        from s2s.data.builtin import pair  # its dictionaries are of no use to whoever has files

        reverse = self.reverse
        for index in count():
            made = pair(self.config.builtin_seed, index)
            yield Example(made.de, made.en) if reverse else Example(made.en, made.de)

    def files(self) -> Sequence[Path]:
        return []

    def settings(self) -> dict[str, Any]:
        return {"builtin": [self.config.builtin_seed, self.config.pairs, self.reverse]}

    def describe(self) -> Iterable[str]:
        direction = "German to English" if self.reverse else "English to German"
        yield (f"built-in corpus, {direction}, {self.config.pairs:,} pairs made by a grammar (no task.train is given)")


def split_of(src: str) -> str:
    """The split of a sentence of the built-in corpus: one in ten for valid, one for test."""
    return {0: "valid", 1: "test"}.get(zlib.crc32(src.encode()) % 10, "train")
