"""`${arch.d_model}` in a value: the value of another option, and nothing else.

The configuration of a run directory may come from anybody, so there are no resolvers: `${oc.env:SECRET}` would read
the environment and write it into the run. Every option is resolved once, and lists and mappings are never put into
other values, so that no value can grow without bound.
"""

from __future__ import annotations

__all__ = ["DanglingError", "has_reference", "substitute"]

import re
from collections.abc import Callable
from typing import Any

from s2s.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
MAX_CHARACTERS = 10_000

Lookup = Callable[[str], Any]
"""Dotted key -> the resolved value."""


class DanglingError(ConfigError):
    """A reference to an option that does not exist."""


def has_reference(value: Any) -> bool:
    """Whether `${` stands anywhere in a value."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any(has_reference(below) for item in value.items() for below in item)
    return isinstance(value, list | tuple) and any(has_reference(below) for below in value)


def substitute(key: str, value: Any, lookup: Lookup) -> Any:
    """The value of option `key` with its references replaced; one that is the whole value keeps the other's type."""
    whole = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    resolved = lookup(_target(key, whole[1])) if whole else _inside(key, value, lookup)
    if has_reference(resolved):
        raise ConfigError(f"{key}: '${{' is left over; a reference is written ${{dotted.key}}, as in ${{arch.d_model}}")
    return resolved


def _inside(key: str, value: Any, lookup: Lookup) -> Any:
    """As `substitute`, with single values only."""
    if isinstance(value, dict):
        return {name: _inside(key, below, lookup) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_inside(key, below, lookup) for below in value)
    if not isinstance(value, str):
        return value
    if whole := _REFERENCE.fullmatch(value):
        return _single(key, whole[1], lookup)
    text = _REFERENCE.sub(lambda match: _as_text(_single(key, match[1], lookup)), value)
    if len(text) > MAX_CHARACTERS and text != value:
        raise ConfigError(f"{key}: longer than {MAX_CHARACTERS} characters with its references replaced")
    return text


def _single(key: str, target: str, lookup: Lookup) -> Any:
    value = lookup(_target(key, target))
    if isinstance(value, list | tuple | dict):
        raise ConfigError(f"{key}: ${{{target}}} is a list or mapping, and cannot stand inside another value")
    return value


def _target(key: str, target: str) -> str:
    if ":" in target:
        what = "resolvers are not allowed; only ${dotted.key} of this configuration"
        raise ConfigError(f"{key}: ${{{target}}}: {what}")
    return target.strip()


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
