"""Former option names and those of other toolkits, and what they are called here: renamed.yaml beside this file."""

from __future__ import annotations

__all__ = ["renamed_options", "targets"]

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.compose.yaml12 import read_file

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def renamed_options() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What options of s2s were once called, and what other toolkits call them, each with its targets."""
    tables = read_file(Path(__file__).with_suffix(".yaml"))
    return tables["renamed"], tables["synonyms"]


def targets(key: str) -> Iterator[str]:
    """What an unknown option may be called here, the likeliest first."""
    head, _, rest = key.partition(".")
    name = key.rpartition(".")[2]
    for table in renamed_options():
        yield from table.get(key, ())
        yield from table.get(name, ())
    yield from (f"{section}.{rest}" for section in renamed_options()[0].get(head, ()) if rest)
