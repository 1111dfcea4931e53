"""A task whose options name corpora: all of `Task` that is about examples, but not about their ids."""

from __future__ import annotations

__all__ = ["CorpusTask"]

from abc import abstractmethod
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar

from s2s.data.corpora import Corpora
from s2s.data.corpus_options import CorpusOptions, FileForm, parse_corpora
from s2s.errors import DataError
from s2s.task import Dependencies, Example, Rejected, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from s2s.registry import Choice, Registry


class CorpusTask(Task):
    """Its corpora are those that `train`, `valid` and `test` of its options name."""

    file_form: ClassVar[FileForm]
    """How plain file names are read as corpora"""

    def __init__(
        self, config: Choice, registry: Registry | None = None, shared: Mapping[str, Any] | None = None
    ) -> None:
        """shared: options of the task for every corpus that has them; by default its `invalid`, if it has one.

        Without a `registry`, corpora are those of the installed plugins.
        """
        super().__init__(config)
        common = {"invalid": config.invalid} if hasattr(config, "invalid") else {}
        self.sources = Corpora(registry, self.named_corpora, common if shared is None else shared)

    def named_corpora(self, split: str) -> list[CorpusOptions]:
        """The corpora that the option of a split names."""
        return parse_corpora(getattr(self.config, split), f"task.{split}", self.file_form)

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All options that determine ids, as JSON: when one changes, the corpora are prepared again."""

    def files(self) -> Sequence[Path]:
        """Further files that determine ids."""
        return ()

    def dependencies(self) -> Dependencies:
        """The corpora of training and development, and all that determines ids."""
        return self.sources.dependencies(self.settings(), self.files())

    def corpora(self, split: str) -> Sequence[tuple[str, float]]:
        """Names and weights, as the configuration gives them."""
        return self.sources.names_and_weights(split)

    def examples(self, split: str, corpus: str) -> Iterator[Example | Rejected]:
        """The examples of one corpus; raises DataError for one without a field that the task needs."""
        examples = self.sources.examples(split, corpus)
        needed = {item.name for item in fields(self.fields) if _is_required(item)} if self.fields else set()
        return self._checked(examples, needed, f"{split} corpus {corpus}") if needed else examples

    def describe(self) -> Iterable[str]:
        """The lines that corpora report."""
        return self.sources.describe()

    def usable(self, split: str = "train") -> Iterator[Example]:
        """The examples of all corpora of a split that are not rejected."""
        for corpus, _ in self.corpora(split):
            for example in self.examples(split, corpus):
                if isinstance(example, Example):
                    yield example

    def _checked(
        self, examples: Iterator[Example | Rejected], needed: set[str], place: str
    ) -> Iterator[Example | Rejected]:
        for number, one in enumerate(examples, 1):
            if isinstance(one, Example) and not needed <= one.fields.keys():
                name = min(needed - one.fields.keys())
                raise DataError(
                    f"{place}, example {number:,}: no field '{name}', which task={self.config.name} reads; if all "
                    f"examples have the same, give it as fields: {{{name}: …}} beside the files of the corpus"
                )
            yield one


def _is_required(item: Any) -> bool:
    return item.default is MISSING and item.default_factory is MISSING
