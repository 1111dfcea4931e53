"""`${arch.d_model}` in a value: the value of another option, and nothing else.

A configuration may come from a stranger's run directory, so there are no resolvers: `${oc.env:SECRET}` would
read the environment and write it into the run. Without them, and with every value looked up once, no text can
grow without bound.
"""

from __future__ import annotations

__all__ = ["UnresolvedError", "interpolate", "references"]

import re
from collections.abc import Callable
from typing import Any

from s2s.errors import ConfigError

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
MAX_CHARACTERS = 10_000

Lookup = Callable[[str], Any]
"""The value of a dotted key, resolved."""


class UnresolvedError(ConfigError):
    """A reference points at nothing that is known here."""


def references(value: Any) -> bool:
    """Whether `${` stands anywhere in a value."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, dict):
        return any(references(below) for item in value.items() for below in item)
    return isinstance(value, list | tuple) and any(references(below) for below in value)


def interpolate(key: str, value: Any, lookup: Lookup) -> Any:
    """The value of option `key` with its references replaced; alone, a reference keeps the other's type."""
    if isinstance(value, str):
        whole = _REFERENCE.fullmatch(value)
        made = lookup(_target(key, whole[1])) if whole else _text(key, value, lookup)
    else:
        made = _inside(key, value, lookup)
    if references(made):
        raise ConfigError(f"{key}: '${{' is left over; a reference is written ${{dotted.key}}, as in ${{arch.d_model}}")
    return made


def _inside(key: str, value: Any, lookup: Lookup) -> Any:
    """Within lists and mappings, references give single values: lists of lists could double at every step."""
    if isinstance(value, dict):
        return {name: _inside(key, below, lookup) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_inside(key, below, lookup) for below in value)
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    return _single(key, whole[1], lookup) if whole else _text(key, value, lookup)


def _text(key: str, value: str, lookup: Lookup) -> str:
    made = _REFERENCE.sub(lambda match: _written(_single(key, match[1], lookup)), value)
    if len(made) > MAX_CHARACTERS and made != value:
        raise ConfigError(f"{key}: longer than {MAX_CHARACTERS} characters with its references replaced")
    return made


def _single(key: str, target: str, lookup: Lookup) -> Any:
    value = lookup(_target(key, target))
    if isinstance(value, list | tuple | dict):
        raise ConfigError(f"{key}: ${{{target}}} is a list or mapping, and cannot stand inside another value")
    return value


def _target(key: str, target: str) -> str:
    if ":" in target:
        raise ConfigError(
            f"{key}: ${{{target}}}: resolvers are not allowed; only ${{dotted.key}} of this configuration"
        )
    return target.strip()


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
