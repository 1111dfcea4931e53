"""The layers laid over each other: for every option of a command, what is said last, and by whom."""

from __future__ import annotations

__all__ = ["COMMAND_LINE", "Draft", "command_of", "default_of", "draft"]

import copy
import difflib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from s2s.compose.interpolation import references
from s2s.compose.layers import Layer, Picked, blame, pick
from s2s.compose.options import Option, hints_of, is_section, options
from s2s.config import Config
from s2s.config.renamed import targets
from s2s.errors import ConfigError, did_you_mean
from s2s.registry import GROUPS, Choice, Entry, Registry

COMMAND_LINE = "command line"


@dataclass
class Draft:
    """A configuration before its values are resolved and checked."""

    schema: type
    entries: dict[str, Entry] = field(default_factory=dict)
    """Group -> what is chosen; a group that may stay open and does is missing."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Group -> the name it was chosen by: a preset's, or the entry's."""
    options: dict[str, Option] = field(default_factory=dict)
    """Every option that can be set, in the order of the schema."""
    sections: dict[str, type] = field(default_factory=dict)
    """Every mapping of options, with its dataclass."""
    said: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Option -> value and origin, where it is not left at its default."""
    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is said about groups without a choice, to be laid over another configuration."""

    def put(self, path: tuple[str, ...], value: Any, origin: str) -> None:
        """Set an option, the options of a section, or a place inside an option's value."""
        for depth in range(1, len(path) + 1):
            key = ".".join(path[:depth])
            if key in self.options:
                self.said[key] = self._inside(key, path[depth:], value, origin), origin
                return
        if key not in self.sections:
            raise ConfigError(f"{blame(origin)}{key}: {self._unknown(key)}")
        if value is not None and not isinstance(value, Mapping):
            first = next((k for k in self.options if k.startswith(f"{key}.")), key)
            raise ConfigError(f"{blame(origin)}{key}={value}: a section, not an option; set one, as {first}=…")
        for name, below in (value or {}).items():
            self.put((*path, name), below, origin)

    def origin(self, key: str) -> str:
        """Who says what an option is."""
        raw, origin = self.said.get(key, (self.options[key].default, "default"))
        return f"{origin}, as {raw[2:-1]}" if isinstance(raw, str) and references(raw) else origin

    def _inside(self, key: str, rest: tuple[str, ...], value: Any, origin: str) -> Any:
        """The option's value with `value` put at `rest` inside it."""
        if not rest:
            return value
        current = self.said[key][0] if key in self.said else self.options[key].default
        if not isinstance(current, Mapping | None) and current != "":
            raise ConfigError(f"{blame(origin)}{key}.{'.'.join(rest)}: {key} is one value, not a mapping")
        whole = copy.deepcopy(dict(current or {}))
        at = whole
        for name in rest[:-1]:
            if not isinstance(at.setdefault(name, {}), dict):
                raise ConfigError(f"{blame(origin)}{key}.{'.'.join(rest)}: '{name}' is no mapping")
            at = at[name]
        at[rest[-1]] = value
        return whole

    def _unknown(self, key: str) -> str:
        """Suggest the option of the nearest name, or of the same name elsewhere, or list the section's."""
        known = [*self.options, *self.sections, *self.open]
        section, _, name = key.rpartition(".")
        near = [target for target in targets(key) if target in known]
        near = near or difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        near = near or [k for k in self.options if k.rpartition(".")[2] == name]
        if near:
            return f"no such option. Did you mean '{near[0]}'?"
        while section and section not in self.sections:
            section, _, name = section.rpartition(".")
        of = f" of {section} ({self.sections[section].__name__})" if section else f" of {command_of(self.schema)}"
        own = {k for k in known if k.rpartition(".")[0] == section}
        return f"no such option{of}.{did_you_mean(key, own)}"


def draft(schema: type, layers: Sequence[Layer], registry: Registry) -> Draft:
    """Choose every group of the schema, then lay what is said over the defaults, lowest first."""
    made = Draft(schema)
    kept = [_relevant(layer, schema) for layer in layers]
    under: list[Layer] = []
    picked: dict[str, Picked] = {}
    defaults = {option.name: option for option in fields(schema)}
    for group in (g for g in registry.groups if g in defaults):
        picked[group] = pick(group, default_of(schema, group), [*under, *kept], registry)
        under += [_relevant(layer, schema) for layer in picked[group].under]
        if picked[group].entry is None and not defaults[group].metadata.get("may_stay_open"):
            raise ConfigError(f"{group}: nothing is chosen; say {group}=NAME.{registry.known(group)}")
    _declare(made, picked)
    for layer in [*under, *kept]:
        for path, value in layer.said:
            if path[0] not in picked:
                made.put(path, value, layer.origin)
    for group, choice in picked.items():
        _say(made, group, choice)
    return made


def default_of(schema: type, group: str) -> str:
    """What is chosen for a group when nobody chooses; empty if nothing is."""
    factory = next(item.default_factory for item in fields(schema) if item.name == group)
    assert callable(factory), f"{schema.__name__}.{group} needs a default_factory"
    choice = factory()
    assert isinstance(choice, Choice)
    return choice.name


def _relevant(layer: Layer, schema: type) -> Layer:
    """Files and presets may serve several commands: what another command understands is left to it."""
    own, others = {item.name for item in fields(schema)}, {item.name for item in fields(Config)}
    shared = set() if layer.origin == COMMAND_LINE else others - own
    layer = _gathered(layer, schema, own | others)
    for path, _ in layer.said:
        if path[0] not in own | shared:
            elsewhere = path[0] in others
            why = f"{command_of(schema)} does not use it" if elsewhere else "no such option"
            hint = "" if elsewhere else _nested(path[0], schema) or _near_root(path, schema)
            raise ConfigError(f"{blame(layer.origin)}{'.'.join(path)}: {why}.{hint}")
    return Layer(layer.origin, tuple(said for said in layer.said if said[0][0] in own), layer.under)


def _gathered(layer: Layer, schema: type, known: Container[str]) -> Layer:
    """What nobody knows is put into the option that takes others, where a command has one, for it to judge."""
    for item in fields(schema):
        if item.metadata.get("takes_others"):
            said = ((path if path[0] in known else (item.name, *path), value) for path, value in layer.said)
            return replace(layer, said=tuple(said))
    return layer


def _nested(key: str, schema: type) -> str:
    """In a file, the dots of the command line are levels."""
    if key not in {option.key for option in options(schema)}:
        return ""
    section, _, name = key.rpartition(".")
    return f" In a file it is written {section}: {{{name}: …}}"


def _near_root(path: tuple[str, ...], schema: type) -> str:
    """A root key alone may be an option of a section: `steps` for train.steps."""
    keys = [option.key for option in options(schema)]
    groups = {item.name for item in fields(schema)} & set(GROUPS)
    for target in targets(".".join(path)):
        if target in keys or target.partition(".")[0] in groups:
            return f" Did you mean '{target}'?"
    same = [key for key in keys if "." in key and key.rpartition(".")[2] == path[-1]]
    near = difflib.get_close_matches(".".join(path), [*keys, *(f.name for f in fields(schema))], n=1, cutoff=0.75)
    if near or same:
        return f" Did you mean '{(near or same)[0]}'?"
    return did_you_mean(path[0], [f.name for f in fields(schema)])


def _declare(made: Draft, picked: Mapping[str, Picked]) -> None:
    """All options of the schema, those of the chosen entries in the places of their groups."""
    own = {option.key: option for option in options(made.schema)}
    for item in fields(made.schema):
        entry = picked[item.name].entry if item.name in picked else None
        hint = entry.config if entry else hints_of(made.schema)[item.name]
        if item.name in picked and entry is None:
            continue
        if entry:
            made.entries[item.name] = entry
        if is_section(hint):
            made.sections |= _sections(hint, item.name)
            found = options(hint, f"{item.name}.")
        else:
            found = iter([own[item.name]])
        made.options |= {option.key: option for option in found}


def _sections(config: type, key: str) -> dict[str, type]:
    below = {f"{key}.{name}": hint for name, hint in hints_of(config).items() if is_section(hint)}
    return {key: config} | {k: v for name, hint in below.items() for k, v in _sections(hint, name).items()}


def _say(made: Draft, group: str, choice: Picked) -> None:
    if choice.entry is None:
        made.open[group] = {}
        for _, (path, value) in choice.said:
            at = made.open[group]
            for name in path[1:-1]:
                at = at.setdefault(name, {})
            at[path[-1]] = value
        return
    made.said[f"{group}.name"] = choice.entry.name, choice.origin
    made.chosen[group] = choice.name
    for origin, (path, value) in choice.said:
        made.put(path, value, origin)


def command_of(schema: type) -> str:
    """The command whose configuration this is: the first word of its docstring."""
    return (schema.__doc__ or schema.__name__).partition(":")[0]
