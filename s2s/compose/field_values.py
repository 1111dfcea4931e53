"""The fields of an example or an input: a mapping in the types of a dataclass, with its defaults."""

from __future__ import annotations

__all__ = ["FieldValues"]

from typing import TYPE_CHECKING, Any

from s2s.compose.conversion import convert
from s2s.compose.options import options_of
from s2s.compose.settings import COMMAND_LINE
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


class FieldValues:
    """Completes mappings by the fields of one dataclass."""

    def __init__(self, config: type) -> None:
        self.config = config
        self.options = {option.field.name: option for option in options_of(config)}

    def missing(self, values: Mapping[str, Any]) -> list[str]:
        """The fields without a default that `values` lacks."""
        return [name for name, option in self.options.items() if option.required and name not in values]

    def complete(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All fields; other names are left out, and none may be missing.

        Raises ConfigError for a value of another type, and for one that the dataclass refuses with ValueError.
        """
        known = {name: option for name, option in self.options.items() if name in values}
        try:
            built = self.config(**{name: convert(option, values[name], COMMAND_LINE) for name, option in known.items()})
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return {name: getattr(built, name) for name in self.options}
