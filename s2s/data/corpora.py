"""The corpora of a task: what its options train, valid and test name, built from the registry."""

from __future__ import annotations

__all__ = ["Corpora", "CorpusOptions", "FileForm", "NamedCorpus", "parse_corpora"]

import json
from dataclasses import fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.compose import entry_config
from s2s.corpus import SPLITS
from s2s.data.corpus_names import CorpusNames
from s2s.data.corpus_options import COMMON, CorpusOptions, FileForm, parse_corpora
from s2s.errors import ConfigError, UserError, did_you_mean
from s2s.plugin import load_plugins
from s2s.task import Dependencies, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s.corpus import Corpus
    from s2s.registry import Registry
    from s2s.task import Example

PREPARED = ("train", "valid")
"""Splits whose changes require a new preparation"""


class NamedCorpus(NamedTuple):
    """A corpus of one split."""

    corpus: Corpus
    entry: str
    """Its name in the registry"""
    weight: float
    """How often each pair is seen in one epoch"""
    options: Mapping[str, Any]
    """As they are given for it, those of the task included"""
    fields: Mapping[str, Any]
    """Fields that all its examples have, unless they bring others"""
    swapped: bool
    """Whether sources and targets change places"""

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """Its examples, with the common fields, and swapped if they are to be."""
        examples = self.corpus.examples(split)
        if not self.fields and not self.swapped:
            return examples
        return (one if isinstance(one, Rejected) else self._complete(one) for one in examples)

    def _complete(self, one: Example) -> Example:
        src, tgt = (one.tgt, one.src) if self.swapped else (one.src, one.tgt)
        return replace(one, src=src, tgt=tgt, fields={**self.fields, **one.fields})

    def settings(self) -> dict[str, Any]:
        """What its examples depend on besides files, as JSON: all its options, unless the corpus selects some."""
        options: dict[str, Any] = json.loads(json.dumps(self.options, default=str))
        return self.corpus.settings() or options

    def dependencies(self, split: str, name: str, files: Sequence[Path]) -> list[Any]:
        """All that its examples depend on, as JSON, under its name in a split."""
        further = {"fields": dict(self.fields), "version": self.corpus.version(split), "swapped": self.swapped}
        further = {key: value for key, value in further.items() if value}
        return [split, name, self.entry, self.settings(), list(map(str, files)), *([further] if further else [])]


class Corpora:
    """Named corpora by split. Those of a split are built at the first use, so that a run can be loaded without them."""

    def __init__(
        self,
        registry: Registry | None,
        named: Callable[[str], Sequence[CorpusOptions]],
        shared: Mapping[str, Any],
    ) -> None:
        """`named`: split -> its corpora; `shared`: options of the task for every corpus that has them, such as invalid.

        Without a `registry`, corpora are those of the installed plugins.
        """
        self.registry = registry or load_plugins().registry
        self.names = CorpusNames(self.registry)
        self.named, self.shared = named, shared
        self.built: dict[str, dict[str, NamedCorpus]] = {}

    def in_split(self, split: str) -> Mapping[str, NamedCorpus]:
        """The corpora of a split by name."""
        if split not in self.built:
            corpora = self.named(split)
            if split != "train":
                _check_weights(corpora)
            self.built[split] = {corpus.name: self._build(corpus) for corpus in corpora}
        return self.built[split]

    def names_and_weights(self, split: str) -> list[tuple[str, float]]:
        """Name and weight of every corpus of a split, as `Task.corpora` gives them."""
        return [(name, corpus.weight) for name, corpus in self.in_split(split).items()]

    def examples(self, split: str, name: str) -> Iterator[Example | Rejected]:
        """The raw examples of one corpus."""
        return self.in_split(split)[name].examples(split)

    def dependencies(
        self, settings: Mapping[str, Any], others: Sequence[Path] = (), splits: Sequence[str] = PREPARED
    ) -> Dependencies:
        """The files of some splits and `others`, with the task's `settings` and those of every corpus."""
        corpora = [(split, *item) for split in splits for item in self.in_split(split).items()]
        files = [list(named.corpus.files(split)) for split, _, named in corpora]
        of_corpora = [
            named.dependencies(split, name, paths) for (split, name, named), paths in zip(corpora, files, strict=True)
        ]
        return Dependencies([*chain.from_iterable(files), *others], {**settings, "corpora": of_corpora})

    def pending(self) -> list[str]:
        """What has to be downloaded before training, once: test sets too, with which training text is compared."""
        lines = (named.corpus.pending(split) for split in SPLITS for named in self.in_split(split).values())
        return list(dict.fromkeys(chain.from_iterable(lines)))

    def describe(self) -> Iterable[str]:
        """What the training and development corpora report."""
        for split in PREPARED:
            for name, named in self.in_split(split).items():
                yield from (f"{split} {name}: {line}" for line in named.corpus.describe())

    def _build(self, corpus: CorpusOptions) -> NamedCorpus:
        try:
            if ("corpus", corpus.corpus) not in self.registry.entries and (hint := self.names.hint(corpus.corpus)):
                raise ConfigError(f"corpus={corpus.corpus}: no such corpus.{hint}")
            entry = self.registry.get("corpus", corpus.corpus)
            known = {item.name for item in fields(entry.config)} - {"name"}
            for option in corpus.options:
                if option not in known:
                    raise ConfigError(f"no option '{option}'.{did_you_mean(option, [*known, *COMMON])}")
            shared = {name: value for name, value in self.shared.items() if name in known}
            options = {**corpus.defaults, **shared, **corpus.options}
            config = entry_config(entry, {"name": entry.name, **options}, corpus.key)
            return NamedCorpus(entry.build(config), entry.name, corpus.weight, options, corpus.fields, corpus.swapped)
        except UserError as error:
            if str(error).startswith(corpus.key):
                raise
            raise type(error)(f"{corpus.key}: {error}") from error


def _check_weights(corpora: Iterable[CorpusOptions]) -> None:
    """Raise ConfigError for a weight outside of training, where it would change nothing."""
    for corpus in corpora:
        if corpus.weight != 1:
            raise ConfigError(
                f"{corpus.key}.weight={corpus.weight:g}: only training corpora have weights, each pair here "
                "counts once; leave it out"
            )
