"""Where the trees come from: a folder of the Wall Street Journal, files of the user's own, or the built-in grammar."""

from __future__ import annotations

__all__ = ["BuiltinTreebank", "FileTreebanks", "Files", "Treebanks", "parse_treebanks"]

import math
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.compose import entry_config
from s2s.errors import ConfigError, did_you_mean
from s2s.task import Example
from s2s_parsing.treebank import Cleaner, Malformed, read_brackets, read_treebank, treebank_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from s2s.corpus import Corpus
    from s2s.registry import Registry
    from s2s.task import Rejected
    from s2s_parsing import ParsingConfig
    from s2s_parsing.tree import Tree

WATCHED = ("train", "valid")  # a test set takes no part in what is prepared
JOURNAL = "wsj"
EXPECTED = "give a file, a folder of .mrg files, a list of them, or {name: {files: [a.mrg,b.mrg], weight: 2}, …}"


class Files(NamedTuple):
    """One corpus of trees."""

    name: str
    files: list[Path]
    weight: float = 1.0
    """How often each tree is seen in one epoch"""


class Treebanks(ABC):
    """Named corpora of trees for every split."""

    def __init__(self, config: ParsingConfig) -> None:
        self.config = config
        self.cleaned: dict[str, Counter[str]] = {}
        """What was taken out of each corpus when it was last read, by split and name"""

    @abstractmethod
    def names(self, split: str) -> Sequence[tuple[str, float]]:
        """Name and weight of every corpus of a split."""

    @abstractmethod
    def read(self, split: str, name: str) -> Iterator[Tree | Rejected]:
        """The trees of one corpus, in order, cleaned."""

    @abstractmethod
    def files(self) -> Sequence[Path]:
        """What is read, for its contents to be watched."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the trees depend on beside the files."""

    @abstractmethod
    def describe(self) -> Iterable[str]:
        """What a user may not expect."""

    def cleaner(self, split: str, name: str) -> Cleaner:
        """What is taken out of the trees, counted anew; a reference keeps the chains that it is judged by."""
        counts = self.cleaned[f"{split} {name}"] = Counter()
        return Cleaner(counts, unary="same" if self.config.unary == "same" and split == "train" else "keep")


class FileTreebanks(Treebanks):
    """`task.treebank`, and whatever `task.train`, `task.valid` and `task.test` add to it."""

    def of(self, split: str) -> dict[str, Files]:
        """The corpora of a split by their names."""
        found = parse_treebanks(getattr(self.config, split), f"task.{split}")
        if self.config.treebank:
            journal = treebank_files(Path(self.config.treebank).expanduser(), split)  # type: ignore[arg-type]
            found = [Files(JOURNAL, journal), *found]
        names = [corpus.name for corpus in found]
        if len(set(names)) < len(names):
            raise ConfigError(f"task.{split}: of {', '.join(names)}, two have one name; give each its own")
        return {corpus.name: corpus for corpus in found}

    def names(self, split: str) -> Sequence[tuple[str, float]]:
        return [(corpus.name, corpus.weight) for corpus in self.of(split).values()]

    def read(self, split: str, name: str) -> Iterator[Tree | Rejected]:
        return read_treebank(self.of(split)[name].files, self.cleaner(split, name), self.config.invalid)

    def files(self) -> Sequence[Path]:
        return [file for split in WATCHED for corpus in self.of(split).values() for file in corpus.files]

    def settings(self) -> dict[str, Any]:
        return {"invalid": self.config.invalid}

    def describe(self) -> Iterable[str]:
        for corpus, counts in self.cleaned.items():
            if counts:
                yield f"{corpus}: {', '.join(f'{n:,} {what}' for what, n in sorted(counts.items()))}"


class BuiltinTreebank(Treebanks):
    """The English trees of the synthetic corpus; the sentence itself determines its split."""

    def __init__(self, config: ParsingConfig, registry: Registry) -> None:
        super().__init__(config)
        self.registry = registry

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus, which a plugin brings."""
        entry = self.registry.get("corpus", "synthetic")
        options = {"tgt": "tree", "pairs": self.config.trees, "seed": self.config.builtin_seed}
        return entry.build(entry_config(entry, options, "task"))

    def names(self, split: str) -> Sequence[tuple[str, float]]:
        return [("builtin", 1.0)]

    def read(self, split: str, name: str) -> Iterator[Tree | Rejected]:
        made = enumerate((e.tgt for e in self.corpus.examples(split) if isinstance(e, Example)), 1)
        for tree in read_brackets(made, self.cleaner(split, "builtin")):
            assert tree is not None, "the grammar has no traces"
            assert not isinstance(tree, Malformed), tree
            yield tree

    def files(self) -> Sequence[Path]:
        return []

    def settings(self) -> dict[str, Any]:
        return self.corpus.settings()

    def describe(self) -> Iterable[str]:
        yield f"no treebank is given: {self.config.trees:,} English trees of the built-in grammar"


def parse_treebanks(value: Any, key: str) -> list[Files]:
    """The corpora that the option `key` names; none if it names nothing."""
    if value is None or (isinstance(value, str | Sequence | Mapping) and not value):
        return []
    if isinstance(value, Mapping) and "files" not in value:
        return [_corpus(item, f"{key}.{name}", str(name)) for name, item in value.items()]
    return [_corpus(value, key, "")]


def _corpus(value: Any, key: str, name: str) -> Files:
    """One corpus, from a file or folder, a list of them, or a mapping with options."""
    if not isinstance(value, Mapping):
        paths = _paths(value, key)
        stem = paths[0].name.split(".")[0] or paths[0].name
        return Files(name or stem, [file for path in paths for file in treebank_files(path)])
    for option in value:
        if option not in ("files", "weight"):
            raise ConfigError(f"{key}: no option '{option}'.{did_you_mean(str(option), ['files', 'weight'])}")
    found = _corpus(value.get("files"), f"{key}.files", name)
    weight = value.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise ConfigError(f"{key}.weight={weight!r} must be a number above 0: 2 sees each tree twice an epoch")
    return found._replace(weight=float(weight))


def _paths(value: Any, key: str) -> list[Path]:
    names = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str | os.PathLike) and n for n in names):
        raise ConfigError(f"{key}={value!r} does not name a treebank; {EXPECTED}")
    return [Path(name).expanduser() for name in names]
