"""Marks of options: metadata of their fields, by which other modules find them."""

from __future__ import annotations

__all__ = ["Mark"]

from dataclasses import MISSING, asdict, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Mark:
    """What an option is marked as, `field(default=…, metadata=Mark.NEUTRAL)`; `|` joins two marks."""

    OF_MODELS = MappingProxyType({"concerns": "models"})
    """It is fixed when models are loaded; all others may differ from one call to the next"""
    OF_FILES = MappingProxyType({"concerns": "files"})
    """It is for input and output files, which a program that has its texts in memory cannot give"""
    OF_TEXTS = MappingProxyType({"concerns": "texts"})
    """It is for reading texts and writing outputs: the search of a sentence does not depend on it"""
    RERANKS = MappingProxyType({"reranks": True})
    """It chooses among `candidates` of the search, unless it has a false value"""
    NEUTRAL = MappingProxyType({"neutral": True})
    """It does not affect the result, or only through what it names, such as a run: an output file or a run may be
    continued with another value"""
    ADDED = MappingProxyType({"added": True})
    """The first version with records of outputs and validations did not have it: at its default it is not recorded, so
    that outputs and rankings begun by that version can be continued"""
    AT_START = MappingProxyType({"at_start": True})
    """It acts on a new run only, such as one that names initial weights: a run with a checkpoint needs neither the
    option nor the plugin that declares it"""

    NAMES_FILE = MappingProxyType({"names_file": True})
    """Its value is the path of a file, or empty: the result depends on what the file contains"""

    @staticmethod
    def earlier(value: Any) -> Mapping[str, Any]:
        """Versions before the option existed did what this value means: runs that they began keep it."""
        return MappingProxyType({"earlier": value})

    @staticmethod
    def options(config: type, mark: Mapping[str, Any]) -> list[str]:
        """The options of a config dataclass with this mark."""
        return [item.name for item in fields(config) if mark.items() <= item.metadata.items()]

    @staticmethod
    def recorded(options: Any) -> dict[str, Any]:
        """The values of a config dataclass, without those that are marked `Mark.ADDED` and have their defaults."""
        defaults = {
            item.name: item.default if item.default_factory is MISSING else item.default_factory()
            for item in fields(options)
            if Mark.ADDED.items() <= item.metadata.items()
        }
        return {k: v for k, v in asdict(options).items() if k not in defaults or v != defaults[k]}
