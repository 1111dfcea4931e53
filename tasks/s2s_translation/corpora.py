"""Where the pairs come from: files of the user's own, or the built-in corpus."""

from __future__ import annotations

__all__ = ["BuiltinCorpora", "Corpora", "FileCorpora"]

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from s2s.compose import entry_config
from s2s.data.parallel import CorpusFiles, parse_corpora, read_pairs
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s.corpus import Corpus
    from s2s.registry import Registry
    from s2s.task import Example, Rejected
    from s2s_translation import TranslationConfig

WATCHED = ("train", "valid")  # a test set takes no part in what is prepared


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
    """The synthetic corpus, in either direction."""

    def __init__(self, config: TranslationConfig, registry: Registry) -> None:
        super().__init__(config)
        self.registry = registry

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

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus, which a plugin brings."""
        src, tgt = ("de", "en") if self.reverse else ("en", "de")
        entry = self.registry.get("corpus", "synthetic")
        options = {"src": src, "tgt": tgt, "pairs": self.config.pairs, "seed": self.config.builtin_seed}
        return entry.build(entry_config(entry, options, "task"))

    def names(self, split: str) -> Sequence[tuple[str, float]]:
        return [("builtin", 1.0)]

    def read(self, split: str, name: str) -> Iterator[Example | Rejected]:
        return self.corpus.examples(split)

    def files(self) -> Sequence[Path]:
        return []

    def settings(self) -> dict[str, Any]:
        return self.corpus.settings()

    def describe(self) -> Iterable[str]:
        direction = "German to English" if self.reverse else "English to German"
        yield f"no task.train is given: {self.config.pairs:,} pairs of the built-in grammar, {direction}"
