"""Where the pairs come from: files of the user's own, or the built-in corpus."""

from __future__ import annotations

__all__ = ["BuiltinCorpora", "Corpora", "FileCorpora"]

import hashlib
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

    def describe(self) -> Iterable[str]:
        """What a user may not expect."""
        return ()


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
        from s2s.data.builtin import pair, split_of  # a grammar that is of no use to whoever has files

        reverse = self.reverse
        made = (pair(self.config.builtin_seed, index) for index in count())
        pairs = (Example(p.de, p.en) if reverse else Example(p.en, p.de) for p in made)
        return islice((p for p in pairs if split_of(p.src) == split), n)

    def files(self) -> Sequence[Path]:
        return []

    def settings(self) -> dict[str, Any]:
        sample = repr(list(self._take("train", 100)))  # a grammar that has changed gives other pairs
        return {"pairs": self.config.pairs, "begins": hashlib.sha256(sample.encode()).hexdigest()}

    def describe(self) -> Iterable[str]:
        direction = "German to English" if self.reverse else "English to German"
        yield f"no task.train is given: {self.config.pairs:,} pairs of the built-in grammar, {direction}"
