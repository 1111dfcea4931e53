"""What a plain word in an option such as task.train means that is no file: a registered corpus, or a name of many."""

from __future__ import annotations

__all__ = ["CorpusNames"]

from functools import cached_property
from typing import TYPE_CHECKING, Any

from s2s.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.registry import Registry

CATALOGUE = "corpus_names"
"""The group of mappings: name -> the options of a registered corpus, which has no such name itself"""


class CorpusNames:
    """The names of corpora: of registered ones, and those that catalogues of plugins map to options of one."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def find(self, word: str) -> Mapping[str, Any] | None:
        """The options that a word stands for, `corpus` among them; None if it is no name.

        Raises what a catalogue raises for a name of its own that cannot be used, such as one that is not complete.
        """
        if ("corpus", word) in self.registry.entries:
            return {"corpus": word}
        return next((catalogue[word] for catalogue in self._catalogues if word in catalogue), None)

    def hint(self, word: str) -> str:
        """The name that may be meant, as the end of an error message; empty if none is like it."""
        known = [*self.registry.names("corpus"), *(name for catalogue in self._catalogues for name in catalogue)]
        hint = did_you_mean(word, known)
        return hint if "Did you mean" in hint else ""

    @cached_property
    def _catalogues(self) -> Sequence[Mapping[str, Mapping[str, Any]]]:
        return [self.registry.build_default(CATALOGUE, name) for name in self.registry.names(CATALOGUE)]
