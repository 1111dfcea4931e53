"""All settings merged: for every option of a command, the value of the strongest source, and that source.

Dataclass defaults are weakest, then the advice of chosen presets, presets (base first), files, and the command line.
"""

from __future__ import annotations

__all__ = ["MergedSettings", "Value", "default_choice", "merge", "set_nested"]

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from s2s.compose.options import Option, hints_of, is_section, options_of, sections
from s2s.compose.selection import Selection, select
from s2s.compose.settings import COMMAND_LINE, DEFAULT, Setting, has_reference, origin_prefix
from s2s.compose.suggestions import command_name, unknown_option, unknown_root
from s2s.config import Config
from s2s.errors import ConfigError
from s2s.registry import Choice, Entry, Registry


class Value(NamedTuple):
    """A value before it is resolved and converted, and its source."""

    value: Any
    origin: str


@dataclass
class MergedSettings:
    """A configuration before its values are resolved and converted."""

    schema: type
    absent_hint: str = ""
    """Plugins that were left out, in words"""
    entries: dict[str, Entry] = field(default_factory=dict)
    """Group -> its choice; a group that is left open is missing."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Group -> the name it was chosen by: a preset's, or the entry's."""
    options: dict[str, Option] = field(default_factory=dict)
    """Every option that can be set, in the order of the schema."""
    sections: dict[str, type] = field(default_factory=dict)
    """Every mapping of options, with its dataclass."""
    values: dict[str, Value] = field(default_factory=dict)
    """Options that are not left at their default."""
    open_settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings of groups that are left open, to be merged into another configuration."""

    def value(self, key: str) -> Value:
        """An option's value, set or default."""
        return self.values.get(key) or Value(self.options[key].default, DEFAULT)

    def origin(self, key: str) -> str:
        """The source of an option's value."""
        value, origin = self.value(key)
        return f"{origin}, as {value[2:-1]}" if isinstance(value, str) and has_reference(value) else origin

    def set(self, key: Sequence[str], value: Any, origin: str) -> None:
        """Set an option, the options of a section, or an entry inside an option's value."""
        for depth in range(len(key)):
            option, path = ".".join(key[: depth + 1]), key[depth + 1 :]
            if option in self.options:
                self.values[option] = Value(self._with_entry(option, path, value, origin), origin)
                return
        section, at = ".".join(key), f"{origin_prefix(origin)}{'.'.join(key)}"
        if section not in self.sections:
            known = [*self.options, *self.sections, *self.open_settings]
            raise ConfigError(f"{at}: {unknown_option(section, self.schema, self.sections, known, self.absent_hint)}")
        if value is not None and not isinstance(value, Mapping):
            first = next((k for k in self.options if k.startswith(f"{section}.")), section)
            raise ConfigError(f"{at}={value}: a section, not an option; set one, as {first}=…")
        for name, below in (value or {}).items():
            self.set((*key, name), below, origin)

    def _with_entry(self, option: str, path: Sequence[str], value: Any, origin: str) -> Any:
        """The option's value with the entry at `path` inside it set to `value`."""
        if not path:
            return value
        current, at = self.value(option).value, f"{origin_prefix(origin)}{option}.{'.'.join(path)}"
        if isinstance(current, str) and current and "names" in self.options[option].field.metadata:
            current = {"name": current}  # an entry of the group that is named there
        if not isinstance(current, Mapping | None) and current != "":
            raise ConfigError(f"{at}: {option} is one value, not a mapping")
        tree = copy.deepcopy(dict(current or {}))
        set_nested(tree, path, value, at)
        return tree


def set_nested(tree: dict[str, Any], path: Sequence[str], value: Any, at: str) -> None:
    """Set the entry at `path` in a tree of mappings, which are made where they are missing; `at` is for errors."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{at}: '{name}' is no mapping")
    tree[path[-1]] = value


def merge(schema: type, settings: Sequence[Setting], registry: Registry) -> MergedSettings:
    """Choose every group of the schema, then apply the settings to the defaults, the weakest first."""
    kept, advice = _relevant(settings, schema, registry), list[Setting]()
    selections: dict[str, Selection] = {}
    may_stay_open = {item.name: item.metadata.get("may_stay_open", False) for item in fields(schema)}
    hints = hints_of(schema)
    for group in (group for group in registry.groups if _is_group(hints.get(group))):
        selection = selections[group] = select(group, default_choice(schema, group), [*advice, *kept], registry)
        advice += _relevant(selection.advice, schema, registry)
        if selection.entry is None and not may_stay_open[group]:
            raise ConfigError(f"{group}: nothing is chosen; say {group}=NAME.{registry.known_hint(group)}")
    merged = _declared(schema, selections, registry.absent_hint())
    for setting in [*advice, *kept]:
        if setting.key[0] not in selections:
            merged.set(setting.key, setting.value, setting.origin)
    for group, selection in selections.items():
        _set_group(merged, group, selection)
    return merged


def _is_group(hint: Any) -> bool:
    """Whether an option of this type is an entry of a group; one that only names an entry is not."""
    return is_section(hint) and issubclass(hint, Choice)


def default_choice(schema: type, group: str) -> str:
    """The name that a group has by default; empty for none."""
    factory = next(item.default_factory for item in fields(schema) if item.name == group)
    assert callable(factory), f"{schema.__name__}.{group} needs a default_factory"
    choice = factory()
    assert isinstance(choice, Choice)
    return choice.name


def _relevant(settings: Sequence[Setting], schema: type, registry: Registry) -> list[Setting]:
    """The settings that this command has options for.

    Files and presets may serve several commands: settings that only another command has are left out. Those that no
    command has go into the option that takes others, if this command has one.
    """
    names, others = {item.name for item in fields(schema)}, set[str]()
    if any(setting.key[0] not in names for setting in settings):  # else no plugin with options of training is imported
        others = {item.name for item in fields(registry.with_options(Config))}
    takes_others = [item.name for item in fields(schema) if item.metadata.get("takes_others")]
    kept = []
    for setting in settings:
        root, at = setting.key[0], f"{origin_prefix(setting.origin)}{'.'.join(setting.key)}"
        if root in names:
            kept.append(setting)
        elif root not in others and takes_others:
            kept.append(setting._replace(key=(takes_others[0], *setting.key)))
        elif root not in others:
            raise ConfigError(f"{at}: {unknown_root('.'.join(setting.key), schema, registry)}")
        elif setting.origin == COMMAND_LINE:
            raise ConfigError(f"{at}: {command_name(schema)} does not use it.")
    return kept


def _declared(schema: type, selections: Mapping[str, Selection], absent_hint: str) -> MergedSettings:
    """All options of the schema, with those of the chosen entries in place of their groups; no values."""
    merged, hints = MergedSettings(schema, absent_hint), hints_of(schema)
    declared = {option.key: option for option in options_of(schema)}
    for item in fields(schema):
        selection, hint = selections.get(item.name), hints[item.name]
        if selection and not selection.entry:
            continue
        if selection and selection.entry:
            merged.entries[item.name] = selection.entry
            hint = selection.entry.config
        if is_section(hint):
            merged.sections |= sections(hint, item.name)
            merged.options |= {option.key: option for option in options_of(hint, f"{item.name}.")}
        else:
            merged.options[item.name] = declared[item.name]
    return merged


def _set_group(merged: MergedSettings, group: str, selection: Selection) -> None:
    if selection.entry is None:
        merged.open_settings[group] = {}
        for setting in selection.settings:
            set_nested(merged.open_settings[group], setting.key[1:], setting.value, ".".join(setting.key))
        return
    merged.values[f"{group}.name"] = Value(selection.entry.name, selection.origin)
    merged.chosen[group] = selection.name
    for setting in selection.settings:
        merged.set(setting.key, setting.value, setting.origin)
