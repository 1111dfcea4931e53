"""Who says what about which option: presets, files and the command line, one over the other.

Dataclass defaults lie lowest, then what a chosen preset lays under everything (`defaults:`), then presets
(base first), files, and the command line. Choosing a group again discards what lower layers said about it.
"""

from __future__ import annotations

__all__ = ["Layer", "Picked", "Preset", "experiment_layers", "pick"]

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from s2s.compose.yaml12 import read_file
from s2s.errors import ConfigError
from s2s.registry import GROUPS, Entry, Preset, Registry

Said = tuple[tuple[str, ...], Any]
"""A path of keys, and what is said there."""


@dataclass(frozen=True)
class Layer:
    """What one source says."""

    origin: str
    said: tuple[Said, ...]
    under: bool = False
    """Laid under everything by a preset's `defaults:`."""

    @classmethod
    def of(cls, origin: str, tree: Mapping[str, Any], *, under: bool = False) -> Layer:
        """The layer of a nested mapping."""
        return cls(origin, tuple(((str(key),), value) for key, value in tree.items()), under)

    def about(self, key: str) -> list[Said]:
        """What is said about one root key, choices first: the order on the command line does not count."""
        return sorted((s for s in self.said if s[0][0] == key), key=lambda s: len(s[0]) > 1)


@dataclass
class Picked:
    """One group's choice, and what is said about its options, lowest first."""

    entry: Entry | None
    origin: str
    said: list[tuple[str, Said]] = field(default_factory=list)
    """Origin, and what it says."""
    under: list[Layer] = field(default_factory=list)
    """What the chosen presets lay under everything."""
    name: str = ""
    """What was asked for: a preset's name, or the entry's."""


@dataclass
class _Choice:
    """A choice not yet looked up: by `kind` "name" (registered), "base" (preset) or "either"."""

    kind: str
    name: str
    origin: str


def pick(group: str, default: str, layers: Sequence[Layer], registry: Registry) -> Picked:
    """Which entry is chosen, and what remains said about it."""
    choice = _Choice("either", default, "default") if default else None
    said: list[tuple[Layer, Said]] = []
    for layer in layers:
        for path, value in layer.about(group):
            if len(path) > 1:
                _refuse_name(path, value, layer.origin)
                said.append((layer, (path, value)))
                continue
            chosen, rest = _split(group, value, layer.origin)
            if chosen:
                # Until somebody has chosen, options wait for the choice; only a preset's advice is dropped.
                said = [] if choice else [(by, what) for by, what in said if not by.under]
                choice = chosen
            said += [(layer, ((group, key), below)) for key, below in rest.items()]
    picked = _look_up(group, choice, registry) if choice else Picked(None, "default")
    picked.said += [(layer.origin, what) for layer, what in said]
    picked.name = choice.name if choice else ""
    return picked


def _refuse_name(path: tuple[str, ...], value: Any, origin: str) -> None:
    if path[1:] in (("name",), ("base",)):
        raise ConfigError(f"{blame(origin)}{'.'.join(path)}={value}: choose with {path[0]}={value}")


def _split(group: str, value: Any, origin: str) -> tuple[_Choice | None, Mapping[str, Any]]:
    """A choice, if `value` is or holds one, and the options beside it."""
    if value is None:
        return None, {}
    if value == "":  # a shell's variable that is not set, more often than not
        raise ConfigError(f"{blame(origin)}{group}=: nothing is named; say {group}=NAME, or leave it out")
    if type(value) is str:
        return _Choice("either", value, origin), {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{blame(origin)}{group}={value}: expected a name, or a mapping with name and options")
    rest = {key: below for key, below in value.items() if key not in ("name", "base")}
    for kind in ("base", "name"):
        name = value.get(kind) or ""
        if not isinstance(name, str):
            raise ConfigError(f"{blame(origin)}{group}.{kind}={name}: expected a name, as text")
        if name:
            return _Choice(kind, name, origin), rest
    return None, rest


def _look_up(group: str, choice: _Choice, registry: Registry) -> Picked:
    is_preset = (group, choice.name) in registry.presets
    if choice.kind == "name" or (choice.kind == "either" and not is_preset):
        if (group, choice.name) not in registry.entries and is_preset:
            what = f"{blame(choice.origin)}{group}.name={choice.name}"
            raise ConfigError(f"{what}: that is a preset; write base: {choice.name}")
        return Picked(_entry(group, choice, registry), choice.origin)
    return _from_presets(group, choice, registry)


def _entry(group: str, choice: _Choice, registry: Registry) -> Entry:
    if (group, choice.name) not in registry.entries:
        raise ConfigError(blame(choice.origin) + registry.unknown(group, choice.name))
    return registry.entries[group, choice.name]


def _from_presets(group: str, choice: _Choice, registry: Registry) -> Picked:
    picked, names = Picked(None, choice.origin), set()
    for origin, tree in reversed(list(_chain(group, choice.name, choice.origin, registry))):
        said = {key: value for key, value in tree.items() if key not in ("name", "base", "defaults")}
        picked.said += [(origin, ((group, key), value)) for key, value in said.items()]
        if "defaults" in tree:
            picked.under.append(_under(group, origin, tree["defaults"]))
        if "name" in tree:
            picked.entry = _entry(group, _Choice("name", str(tree["name"]), origin), registry)
            names.add(picked.entry.name)
    if len(names) > 1:
        raise ConfigError(f"preset {group}={choice.name}: it and its bases name {' and '.join(sorted(names))}")
    if picked.entry is None:
        raise ConfigError(f"preset {group}={choice.name}: it must say `name:` (registered) or `base:` (a preset)")
    return picked


def _under(group: str, origin: str, tree: Any) -> Layer:
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{blame(origin)}defaults: expected a mapping of options")
    order = list(GROUPS)
    early = [key for key in tree if key in order and order.index(key) <= order.index(group)]
    if early:
        raise ConfigError(f"{blame(origin)}defaults: '{early[0]}' is chosen before '{group}', so it cannot stand here")
    return Layer.of(f"{origin}, defaults", tree, under=True)


def experiment_layers(name: str, registry: Registry, origin: str = "command line") -> list[Layer]:
    """The layers of an experiment, its bases first."""
    if not name:
        return []
    found = reversed(list(_chain("experiment", name, origin, registry)))
    return [Layer.of(by, {key: value for key, value in tree.items() if key != "base"}) for by, tree in found]


def _chain(group: str, name: str, by: str, registry: Registry) -> Iterator[tuple[str, dict[str, Any]]]:
    """A preset and its bases, each with its origin."""
    seen: list[str] = []
    while name:
        if name in seen:
            raise ConfigError(f"preset {group}={seen[0]}: its bases go in a circle: {' -> '.join([*seen, name])}")
        if (group, name) not in registry.presets:
            hint = f" '{name}' is registered: write name: {name}" if (group, name) in registry.entries else ""
            raise ConfigError(blame(by) + (f"base={name}:{hint}" if hint else registry.unknown(group, name)))
        seen.append(name)
        preset = registry.presets[group, name]
        by, tree = origin_of(preset), tree_of(preset)
        yield by, tree
        name = tree.get("base") or ""
        if not isinstance(name, str):
            raise ConfigError(f"{blame(by)}base: expected the name of a preset")


def tree_of(preset: Preset) -> dict[str, Any]:
    """What a preset says."""
    return read_file(preset.source) if isinstance(preset.source, Path) else dict(preset.source)


def origin_of(preset: Preset) -> str:
    """Which preset, and where it stands."""
    if not isinstance(preset.source, Path):
        return f"preset {preset.group}={preset.name} (plugin {preset.plugin})"
    path, here = preset.source, Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"preset {preset.group}={preset.name} ({shown})"


def blame(origin: str) -> str:
    """Who said it, to begin an error with; nothing for the command line, which the user sees."""
    return "" if origin in ("command line", "default") else f"{origin}: "
