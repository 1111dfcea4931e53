"""The contract of segmenters: where the sentences of a line are. They are registered in the group `segmenter`."""

from __future__ import annotations

__all__ = ["Segmenter"]

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Segmenter(ABC):
    """Finds sentences in one language."""

    @abstractmethod
    def sentences(self, line: str) -> Sequence[tuple[int, int]]:
        """Begin and end of each sentence of a line, in order, without white space at their edges; none in a blank line.

        What lies outside of them, such as white space or a symbol between two sentences, is copied to the output.
        """
