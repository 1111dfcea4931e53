"""A task whose options name corpora: all of `Task` that is about examples, but not about their ids."""

from __future__ import annotations

__all__ = ["CorpusTask"]

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from s2s.compose.field_values import FieldValues
from s2s.data.corpora import Corpora
from s2s.data.corpus_names import CorpusNames
from s2s.data.corpus_options import CorpusOptions, FileForm, parse_corpora
from s2s.errors import ConfigError, DataError, did_you_mean
from s2s.plugin import load_plugins
from s2s.task import Dependencies, Example, Rejected, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s.registry import Choice, Registry


class CorpusTask(Task):
    """Its corpora are those that `train`, `valid` and `test` of its options name."""

    file_form: ClassVar[FileForm]
    """How plain file names are read as corpora"""
    registry: Registry | None = None
    """Where corpora are looked up; None: among the installed plugins. Set before `named_corpora` is first called"""

    def __init__(
        self, config: Choice, registry: Registry | None = None, shared: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """shared: options of the task for every corpus that has them.

        Without a `registry`, corpora are those of the installed plugins.
        """
        super().__init__(config)
        self.registry = registry
        self.data_sources = Corpora(registry, self.named_corpora, shared)

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """The corpora that the option of a split names."""
        return parse_corpora(getattr(self.config, split), f"task.{split}", self.file_form, self._names)

    @cached_property
    def _names(self) -> CorpusNames:
        return CorpusNames(self.registry or load_plugins().registry)

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All options that determine ids, as JSON: when one changes, the corpora are prepared again."""

    def files(self) -> Sequence[Path]:
        """Further files that determine ids."""
        return ()

    def dependencies(self) -> Dependencies:
        """The corpora of training and development, and all that determines ids."""
        return self.data_sources.dependencies(self.settings(), self.files())

    def test_dependencies(self) -> Dependencies:
        """The test corpora."""
        return self.data_sources.dependencies({}, splits=("test",))

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Names and weights, as the configuration gives them."""
        return self.data_sources.names_and_weights(split)

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The examples of one corpus, with the fields that the task declares in their types, defaults included.

        Raises ConfigError for a common field of the corpus that the task does not declare, and DataError for an example
        without a required field or with a value of another type.
        """
        examples = self.data_sources.examples(split, corpus)
        if self.fields is None:
            return examples
        values = FieldValues(self.fields)
        for name in self.data_sources.in_split(split)[corpus].fields:
            if name not in values.options:
                hint = did_you_mean(name, values.options)
                raise ConfigError(
                    f"{split} corpus {corpus}, fields: {name}: task={self.config.name} reads no such field.{hint}"
                )
        return self._completed(examples, values, f"{split} corpus {corpus}")

    def pending(self) -> Sequence[str]:
        """What has to be downloaded first."""
        return self.data_sources.pending()

    def describe(self) -> Iterable[str]:
        """The lines that corpora report."""
        return self.data_sources.describe()

    def usable(self, split: str = "train") -> Iterator[Example]:
        """The examples of all corpora of a split that are not rejected."""
        for corpus, _ in self.corpora(split):
            for example in self.examples(split, corpus):
                if isinstance(example, Example):
                    yield example

    def _completed(
        self, examples: Iterator[Example | Rejected], values: FieldValues, place: str
    ) -> Iterator[Example | Rejected]:
        for number, one in enumerate(examples, 1):
            if isinstance(one, Example):
                for name in values.missing(one.fields):
                    raise DataError(
                        f"{place}, example {number:,}: no field '{name}', which task={self.config.name} reads; if all "
                        f"examples have the same, give it as fields: {{{name}: …}} beside the files of the corpus"
                    )
                try:
                    yield replace(one, fields={**one.fields, **values.complete(one.fields)})
                except ConfigError as error:
                    raise DataError(f"{place}, example {number:,}: {error}") from None
            else:
                yield one
