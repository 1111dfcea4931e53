"""The contract of a corpus: raw examples, as text, by split. A corpus is independent of the task."""

from __future__ import annotations

__all__ = ["SPLITS", "Corpus"]

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s.task import Example, Rejected

SPLITS = ("train", "valid", "test")


class Corpus(ABC):
    """Raw examples. Registered under a name in the group `corpus` with its config; built by factory(config)."""

    @abstractmethod
    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """The examples of "train", "valid" or "test", always in the same order.

        One that cannot be used is yielded as a `Rejected`, so that all are counted. A corpus that has only one split
        ignores `split`.

        split: one of train, valid and test; a corpus that has only one ignores it.
        """

    def files(self, split: str) -> Sequence[Path]:
        """The files that are read; when their contents change, the corpus is prepared again."""
        return ()

    def settings(self) -> dict[str, Any]:
        """Everything else that the examples depend on, as JSON; when it changes, the corpus is prepared again.

        Empty: all options of the corpus, as they are given.
        """
        return {}

    def version(self, split: str) -> str:
        """A stamp of data that are not in files, such as the revision of a remote data set; when it changes, the corpus
        is prepared again."""
        return ""

    def pending(self, split: str) -> Sequence[str]:
        """What has to be downloaded before the examples can be read, in lines with sizes and licence; () if nothing.

        A dry run shows them, and downloads nothing.
        """
        return ()

    def describe(self) -> Iterable[str]:
        """Lines for the first screen, such as how many trees were cleaned."""
        return ()
