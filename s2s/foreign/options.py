"""The names of options here and in another program's configuration."""

from __future__ import annotations

__all__ = ["OptionNames", "as_text"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from s2s.errors import CheckpointError, ConfigError


@dataclass(frozen=True)
class OptionNames:
    """An option of the architecture, and the options there that all have its value."""

    native: str
    foreign: Sequence[str]
    values: Mapping[Any, Any] | None = None
    """The value here -> its name there; None: the same value."""
    synonyms: Mapping[Any, Any] | None = None
    """Further values there -> the value here."""
    default: Any = None
    """The value there if a configuration leaves it out; None: it is required."""

    def write(self, value: Any, format_name: str) -> dict[str, Any]:
        """The options there; raises ConfigError for a value that the format does not have."""
        if self.values is not None:
            if value not in self.values:
                known = " or ".join(map(as_text, self.values))
                raise ConfigError(f"arch.{self.native}={as_text(value)}: {format_name} has only {known}")
            value = self.values[value]
        return dict.fromkeys(self.foreign, value)

    def read(self, config: Mapping[str, Any]) -> Any:
        """The option here; raises CheckpointError for what is missing, unknown, or not the same in all options."""
        values = {name: config.get(name, self.default) for name in self.foreign}
        first, *others = values.items()
        for name, value in others:
            if value != first[1]:
                raise CheckpointError(
                    f"{first[0]}={first[1]} and {name}={value} differ; arch.{self.native} is one for both"
                )
        name, value = first
        if value is None:
            raise CheckpointError(f"the configuration has no {name}")
        if self.values is None:
            return value
        known = {there: here for here, there in self.values.items()} | dict(self.synonyms or {})
        if not isinstance(value, str | bool | int | float) or value not in known:
            raise CheckpointError(f"{name}={value} is unknown here; known: {', '.join(map(str, known))}")
        return known[value]


def as_text(value: Any) -> str:
    """As a user writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
