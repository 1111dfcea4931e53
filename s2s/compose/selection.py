"""Which entry is chosen for a group (`arch=transformer_big`), and the settings of its options.

A preset is a mapping with `name:` (a registered entry) or `base:` (another preset), options, and perhaps `defaults:`,
which give advice about groups that are chosen later. Choosing a group again discards what weaker sources set in it.
"""

from __future__ import annotations

__all__ = ["Selection", "experiment_settings", "select"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from s2s.compose.settings import COMMAND_LINE, DEFAULT, Setting, origin_prefix, settings_of
from s2s.compose.yaml12 import read_file
from s2s.errors import ConfigError
from s2s.registry import GROUPS, Entry, Preset, Registry


@dataclass
class Selection:
    """The choice of one group."""

    entry: Entry | None
    """None if the group stays open."""
    name: str
    """The name it was chosen by: a preset's, or the entry's."""
    origin: str
    settings: list[Setting] = field(default_factory=list)
    """Of its options, the weakest first."""
    advice: list[Setting] = field(default_factory=list)
    """The presets' settings of other options, from `defaults:`."""


_Layer = tuple[str, dict[str, Any]]
"""The origin of a preset, and what it holds"""


class _Choice(NamedTuple):
    name: str
    kind: str
    """"name" (of an entry), "base" (a preset) or "either"."""
    origin: str


def select(group: str, default: str, settings: Sequence[Setting], registry: Registry) -> Selection:
    """The choice of a group by the last setting that makes one, and the settings that remain."""
    choice = _Choice(default, "either", DEFAULT) if default else None
    kept: list[Setting] = []
    for setting in settings:
        if setting.key[0] != group:
            continue
        if len(setting.key) > 1:
            _check_name(setting)
            kept.append(setting)
            continue
        chosen, rest = _split(group, setting)
        if chosen:
            # Options set before the first choice are kept for it; only a preset's advice is dropped.
            kept = [] if choice else [s for s in kept if not s.advice]
            choice = chosen
        kept += settings_of(rest, setting.origin, group, advice=setting.advice)
    selection = _look_up(group, choice, registry) if choice else Selection(None, "", DEFAULT)
    selection.settings += kept
    return selection


def _check_name(setting: Setting) -> None:
    group, *rest = setting.key
    if rest in (["name"], ["base"]):
        raise ConfigError(
            f"{origin_prefix(setting.origin)}{group}.{rest[0]}={setting.value}: choose with {group}={setting.value}"
        )


def _split(group: str, setting: Setting) -> tuple[_Choice | None, Mapping[str, Any]]:
    """A choice, if the value is or holds one, and the options beside it."""
    value, at = setting.value, f"{origin_prefix(setting.origin)}{group}"
    if value is None:
        return None, {}
    if value == "":  # often a shell variable that is not set
        raise ConfigError(f"{at}=: nothing is named; say {group}=NAME, or leave it out")
    if type(value) is str:
        return _Choice(value, "either", setting.origin), {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{at}={value}: expected a name, or a mapping with name and options")
    rest = {key: below for key, below in value.items() if key not in ("name", "base")}
    for kind in ("base", "name"):
        name = value.get(kind) or ""
        if not isinstance(name, str):
            raise ConfigError(f"{at}.{kind}={name}: expected a name, as text")
        if name:
            return _Choice(name, kind, setting.origin), rest
    return None, rest


def _look_up(group: str, choice: _Choice, registry: Registry) -> Selection:
    """The entry, and what the preset and its bases set, if the choice is one."""
    selection, names = Selection(None, choice.name, choice.origin), set()
    for origin, tree in _layers(group, choice, registry):
        options = {key: value for key, value in tree.items() if key not in ("name", "base", "defaults")}
        selection.settings += settings_of(options, origin, group)
        selection.advice += _advice(group, origin, tree.get("defaults", {}))
        if "name" in tree:
            name = str(tree["name"])
            if (group, name) not in registry.entries:
                raise ConfigError(origin_prefix(origin) + registry.unknown_message(group, name))
            selection.entry = registry.entries[group, name]
            names.add(name)
    if len(names) > 1:
        raise ConfigError(f"preset {group}={choice.name}: it and its bases name {' and '.join(sorted(names))}")
    if selection.entry is None:
        raise ConfigError(f"preset {group}={choice.name}: it must say `name:` (registered) or `base:` (a preset)")
    return selection


def _layers(group: str, choice: _Choice, registry: Registry) -> list[_Layer]:
    """The bases of a preset and the preset itself; of an entry, its name alone."""
    is_preset = (group, choice.name) in registry.presets
    if choice.kind == "base" or (choice.kind == "either" and is_preset):
        return _bases_first(group, choice.name, choice.origin, registry)
    if is_preset and (group, choice.name) not in registry.entries:
        what = f"{origin_prefix(choice.origin)}{group}.name={choice.name}: nothing is registered under this name"
        raise ConfigError(f"{what}; for the preset, write base: {choice.name}.{registry.absent_hint()}")
    return [(choice.origin, {"name": choice.name})]


def _advice(group: str, origin: str, tree: Any) -> list[Setting]:
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{origin_prefix(origin)}defaults: expected a mapping of options")
    order = list(GROUPS)
    early = [key for key in tree if key in order and order.index(key) <= order.index(group)]
    if early:
        raise ConfigError(
            f"{origin_prefix(origin)}defaults: '{early[0]}' is chosen before '{group}', so it cannot stand here"
        )
    return settings_of(tree, f"{origin}, defaults", advice=True)


def experiment_settings(name: str, registry: Registry, origin: str = COMMAND_LINE) -> list[Setting]:
    """The settings of an experiment, those of its bases first."""
    experiments = _bases_first("experiment", name, origin, registry)
    return [setting for by, tree in experiments for setting in settings_of(tree, by) if setting.key != ("base",)]


def _bases_first(group: str, name: str, by: str, registry: Registry) -> list[_Layer]:
    """A preset and its bases; nothing for an empty name."""
    layers: dict[str, _Layer] = {}
    while name:
        if name in layers:
            raise ConfigError(
                f"preset {group}={next(iter(layers))}: its bases go in a circle: {' -> '.join([*layers, name])}"
            )
        if (group, name) not in registry.presets:
            hint = f" '{name}' is registered: write name: {name}" if (group, name) in registry.entries else ""
            raise ConfigError(
                origin_prefix(by) + (f"base={name}:{hint}" if hint else registry.unknown_message(group, name))
            )
        preset = registry.presets[group, name]
        by, tree = _origin_of(preset), read_file(preset.source) if isinstance(preset.source, Path) else preset.source
        layers[name] = by, dict(tree)
        name = tree.get("base") or ""
        if not isinstance(name, str):
            raise ConfigError(f"{origin_prefix(by)}base: expected the name of a preset")
    return list(layers.values())[::-1]


def _origin_of(preset: Preset) -> str:
    """Which preset, and its file or plugin."""
    if not isinstance(preset.source, Path):
        return f"preset {preset.group}={preset.name} (plugin {preset.plugin})"
    path, here = preset.source, Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"preset {preset.group}={preset.name} ({shown})"
