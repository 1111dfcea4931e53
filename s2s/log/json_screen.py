"""Records for programs."""

from __future__ import annotations

__all__ = ["JsonScreen"]

import json
from typing import TYPE_CHECKING, Any

from s2s.log.log import nonfinite_to_null
from s2s.log.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.registry import Choice


class JsonScreen(Screen):
    """The records of log.jsonl, and other lines as records of their own."""

    def __init__(self, config: Choice) -> None:
        pass

    def line(self, text: str, indent: int = 0) -> None:
        """Print nothing: the record of the line follows."""

    def record(self, record: Mapping[str, Any]) -> None:
        """Print one line of JSON."""
        print(json.dumps(nonfinite_to_null(record)), flush=True)
