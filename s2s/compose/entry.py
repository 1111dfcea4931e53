"""The config of an entry that is named inside another's option, such as a metric of a task."""

from __future__ import annotations

__all__ = ["entry_config"]

from typing import TYPE_CHECKING, Any

from s2s.compose.draft import COMMAND_LINE
from s2s.compose.options import options
from s2s.compose.typed import typed
from s2s.config.renamed import targets
from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.registry import Choice, Entry


def entry_config(entry: Entry, said: Mapping[str, Any], key: str) -> Choice:
    """The config with what is `said` of its options, checked as at the top; `key` is where that stands."""
    known = {option.field.name: option for option in options(entry.config, f"{key}.")}
    for name in said:
        if name not in known:
            near = [target for target in targets(f"{key}.{name}") if target.rpartition(".")[2] in known]
            hint = did_you_mean(near[0].rpartition(".")[2] if near else str(name), known.keys() - {"name"})
            raise ConfigError(f"{key}.{name}: no such option.{hint}")
    return entry.config(**{name: typed(known[name], value, COMMAND_LINE) for name, value in said.items()})
