"""The value of every option: `${arch.d_model}` replaced by the value of that option, then converted.

The configuration of a run directory may come from anyone, so there are no resolvers: `${oc.env:SECRET}` would read
the environment and write it into the run. Every option is resolved once, and lists and mappings are never put into
other values, so that no value can grow without bound.
"""

from __future__ import annotations

__all__ = ["MUST_BE_GIVEN", "resolve"]

import json
import re
from dataclasses import dataclass, field
from typing import Any

from s2s.compose.conversion import convert
from s2s.compose.merging import MergedSettings
from s2s.compose.settings import DEFAULT, has_reference, origin_prefix
from s2s.errors import ConfigError, did_you_mean

MUST_BE_GIVEN = "???"
"""The value of an option that a preset leaves to its user."""
MAX_CHARACTERS = 10_000
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")


class UnresolvedError(ConfigError):
    """An option that has no value: it must be given, or refers to an option that does not exist."""


def resolve(merged: MergedSettings, *, keep_unresolved: bool = False) -> dict[str, Any]:
    """The value of every option, converted; what has no value raises UnresolvedError, or is kept as it stands."""
    resolver = _Resolver(merged)
    for key in merged.options:
        try:
            resolver.value(key)
        except UnresolvedError:
            if not keep_unresolved:
                raise
            resolver.pending.clear()
            resolver.values[key] = merged.value(key).value
    return resolver.values


@dataclass
class _Resolver:
    merged: MergedSettings
    values: dict[str, Any] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    """Options whose references are being followed, the first one first"""

    def value(self, key: str) -> Any:
        """The converted value of an option, which is computed once."""
        if key in self.pending:
            raise ConfigError(f"{key}: its references go in a circle: {' -> '.join([*self.pending, key])}")
        if key not in self.values:
            self.pending.append(key)
            self.values[key] = self._converted(key)
            self.pending.pop()
        return self.values[key]

    def _converted(self, key: str) -> Any:
        option, (value, origin) = self.merged.options[key], self.merged.value(key)
        if value == MUST_BE_GIVEN or (option.required and origin == DEFAULT):
            raise UnresolvedError(f"{origin_prefix(origin)}{key} must be given; add {key}=… to the command line")
        if not has_reference(value):
            return convert(option, value, origin) if key in self.merged.values else value
        whole = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        resolved = self._target(key, whole[1]) if whole else self._inside(key, value)
        if has_reference(resolved):
            what = "'${' is left over; a reference is written ${dotted.key}, as in ${arch.d_model}"
            raise ConfigError(f"{key}: {what}")
        return convert(option, resolved, origin)

    def _inside(self, key: str, value: Any) -> Any:
        """A value with each reference in it replaced by a single value, not by a list or mapping."""
        if isinstance(value, dict):
            return {name: self._inside(key, below) for name, below in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._inside(key, below) for below in value)
        if not isinstance(value, str):
            return value
        if whole := _REFERENCE.fullmatch(value):
            return self._single(key, whole[1])
        text = _REFERENCE.sub(lambda match: _as_text(self._single(key, match[1])), value)
        if len(text) > MAX_CHARACTERS and text != value:
            raise ConfigError(f"{key}: longer than {MAX_CHARACTERS} characters with its references replaced")
        return text

    def _single(self, key: str, target: str) -> Any:
        value = self._target(key, target)
        if isinstance(value, list | tuple | dict):
            raise ConfigError(f"{key}: ${{{target}}} is a list or mapping, and cannot stand inside another value")
        return value

    def _target(self, key: str, text: str) -> Any:
        """The value of the option that `${text}` in the value of `key` names."""
        target = text.strip()
        if ":" in target:
            what = "resolvers are not allowed; only ${dotted.key} of this configuration"
            raise ConfigError(f"{key}: ${{{text}}}: {what}")
        if target in self.merged.options:
            return self.value(target)
        if key in self.merged.values:
            raise UnresolvedError(f"{key}: ${{{target}}}: no such option.{did_you_mean(target, self.merged.options)}")
        what = f"{key} follows {target}, which does not exist here"
        raise UnresolvedError(f"{what}; set {key}=…, or choose otherwise")


def _as_text(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
