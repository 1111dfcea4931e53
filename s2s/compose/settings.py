"""One setting of one source: presets, files and the command line are lists of these, the weakest first."""

from __future__ import annotations

__all__ = ["COMMAND_LINE", "DEFAULT", "Setting", "has_reference", "origin_prefix", "settings_of"]

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT = "default"
COMMAND_LINE = "command line"


class Setting(NamedTuple):
    """A key, the value that a source gives it, and the source."""

    key: tuple[str, ...]
    value: Any
    origin: str
    """"default", "preset arch=… (path)", "file x.yaml" or "command line"."""
    advice: bool = False
    """From the `defaults:` of a preset: weaker than every other source, and dropped when the user chooses a group."""


def settings_of(tree: Mapping[str, Any], origin: str, *above: str, advice: bool = False) -> list[Setting]:
    """A setting for each entry of a mapping, whose key is under `above`."""
    return [Setting((*above, str(name)), value, origin, advice) for name, value in tree.items()]


def origin_prefix(origin: str) -> str:
    """The source as a prefix of an error message; empty for the command line, which the user sees."""
    return "" if origin in (COMMAND_LINE, DEFAULT) else f"{origin}: "


def has_reference(value: Any) -> bool:
    """Whether `${` occurs anywhere in a value."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any(has_reference(below) for item in value.items() for below in item)
    return isinstance(value, list | tuple) and any(has_reference(below) for below in value)
