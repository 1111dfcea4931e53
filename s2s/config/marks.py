"""Marks of options: metadata of their fields, by which other modules find them."""

from __future__ import annotations

__all__ = ["ADDED", "AT_START", "NEUTRAL", "OF_FILES", "OF_MODELS", "RERANKS", "options_marked"]

from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

OF_MODELS = MappingProxyType({"concerns": "models"})
"""Metadata of an option that is fixed when models are loaded; all others may differ from one call to the next"""
OF_FILES = MappingProxyType({"concerns": "files"})
"""Metadata of an option for input and output files, which a program that has its texts in memory cannot give"""
RERANKS = MappingProxyType({"reranks": True})
"""Metadata of an option that chooses among `candidates` of the search, unless it has a false value"""
NEUTRAL = MappingProxyType({"neutral": True})
"""Metadata of an option that does not affect the result, or only through what it names, such as a run: an output file
or a run may be continued with another value"""
ADDED = MappingProxyType({"added": True})
"""Metadata of an option that the first version with records of outputs did not have: at its default it is not recorded,
so that outputs begun by that version can be continued"""
AT_START = MappingProxyType({"at_start": True})
"""Metadata of an option that acts on a new run only, such as one that names initial weights: a run with a checkpoint
needs neither the option nor the plugin that declares it"""


def options_marked(config: type, mark: Mapping[str, Any]) -> list[str]:
    """The options with this metadata, such as `OF_MODELS`."""
    return [item.name for item in fields(config) if mark.items() <= item.metadata.items()]
