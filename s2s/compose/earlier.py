"""Options added after a run began: continuing it keeps the earlier behaviour (`Mark.earlier`)."""

from __future__ import annotations

__all__ = ["as_recorded", "earlier_settings", "with_defaults", "with_earlier"]

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.compose.options import hints_of, is_section
from s2s.compose.settings import Setting
from s2s.registry import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from dataclasses import Field

    from s2s.compose.composition import ComposedConfig
    from s2s.registry import Registry

ORIGIN = "as the run began"
EARLIER = "earlier"
GetValue = Callable[["Field[Any]"], Any]


def earlier_settings(tree: Mapping[str, Any], registry: Registry, schema: type) -> list[Setting]:
    """The options that the settings of a run lack, or lack within their values, as it began. schema: all options."""
    return [
        Setting((group, change.name), change.after, ORIGIN)
        for group, values in tree.items()
        if (config := _config(group, values, registry) or _section(schema, group, values))
        for change in _Completion(registry, _earlier).changes(values, config)
    ]


def with_earlier(composed: ComposedConfig[Any], tree: Mapping[str, Any], registry: Registry) -> ComposedConfig[Any]:
    """A configuration that continues the run with these settings, unless it sets the options to other values."""
    sections = {}
    for group, values in tree.items():
        section = getattr(composed.config, group, None)
        config = _config(group, values, registry) or _section(type(composed.config), group, values)
        if config and section is not None and getattr(section, "name", "") == values.get("name", ""):
            explicit = composed.explicit.get(group)
            changes = _Completion(registry, _earlier).changes(values, config)
            sections[group] = replace(section, **dict(_applicable(changes, section, values, explicit)))
    return replace(composed, config=replace(composed.config, **sections))


def with_defaults(composed: ComposedConfig[Any], registry: Registry) -> ComposedConfig[Any]:
    """A configuration whose choices by name within options have, for the record, the values of newer options, too."""
    completion, sections = _Completion(registry, _default), {}
    for item in fields(composed.config):
        section = getattr(composed.config, item.name)
        if isinstance(section, Choice):
            changes = completion.changes(vars(section), type(section))
            sections[item.name] = replace(section, **{change.name: change.after for change in changes})
    return replace(composed, config=replace(composed.config, **sections))


def as_recorded(value: Any, group: str, registry: Registry) -> Any:
    """A choice by name, for a record that must stay as versions wrote it that lacked some of its options.

    Options whose value is that of these versions are left out, and those that are newer are completed.
    """
    options = {"name": value} if isinstance(value, str) else dict(value)
    config = _config(group, options, registry)
    for item in fields(config) if config else ():
        if EARLIER in item.metadata:
            current = options.pop(item.name, _default(item))
            options |= {} if current == _earlier(item) else {item.name: current}
    return options["name"] if options.keys() == {"name"} else options


class _Change(NamedTuple):
    """An option whose value lacks something."""

    name: str
    before: Any
    after: Any


class _Completion(NamedTuple):
    """Completes settings by the newer options that they lack."""

    registry: Registry
    value_of: GetValue
    """The value of a newer option"""

    def changes(self, values: Mapping[str, Any], config: type) -> Iterator[_Change]:
        """The options that `values` lack, or lack within their values."""
        for item in fields(config):
            before = values.get(item.name, _default(item))
            if EARLIER in item.metadata and item.name not in values:
                yield _Change(item.name, before, self.value_of(item))
            elif (after := self._completed(before, item.metadata.get("names", ""))) != before:
                yield _Change(item.name, before, after)

    def _completed(self, value: Any, group: str) -> Any:
        """A choice by name, or several in a mapping, with the newer options."""
        options = {"name": value} if isinstance(value, str) else value
        if config := _config(group, options, self.registry):
            changes = {change.name: change.after for change in self.changes(options, config)}
            return {**options, **changes} if changes else value
        return {k: self._completed(v, group) for k, v in value.items()} if isinstance(value, Mapping) else value


def _applicable(
    changes: Iterable[_Change], section: Any, values: Mapping[str, Any], explicit: Any
) -> Iterator[tuple[str, Any]]:
    """The changes of options that are as in the run's settings, or that neither these nor the command set."""
    for name, before, after in changes:
        is_set = isinstance(explicit, Mapping) and name in explicit
        if getattr(section, name) == before and (name in values or not is_set):
            yield name, after


def _config(group: str, options: Any, registry: Registry) -> type | None:
    """The config of the entry that options name; None if they name none that is registered."""
    name = options.get("name") if isinstance(options, Mapping) else None
    entry = registry.entries.get((group, name)) if isinstance(name, str) else None
    return entry.config if entry else None


def _section(schema: type, group: str, values: Any) -> type | None:
    """The config of a section that is not chosen by name, such as data; None if there is none of these values."""
    hint = hints_of(schema).get(group)
    plain = hint is not None and is_section(hint) and not issubclass(hint, Choice)
    return hint if plain and isinstance(values, Mapping) else None


def _earlier(item: Field[Any]) -> Any:
    return item.metadata[EARLIER]


def _default(item: Field[Any]) -> Any:
    """The value of an option that is not set."""
    return item.default if item.default_factory is MISSING else item.default_factory()
