"""A segmenter for tests: sentences are what stands between full stops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from s2s.data import Segmenter

if TYPE_CHECKING:
    from collections.abc import Sequence


class FullStops(Segmenter):
    """Sentences without their stops."""

    def sentences(self, line: str) -> Sequence[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"[^.\s](?:[^.]*[^.\s])?", line)]
