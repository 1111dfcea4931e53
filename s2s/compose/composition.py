"""From the command line to one configuration: typed, checked, and every value with its origin.

Order, whatever the order of the arguments: dataclass defaults, presets (base first), files, the command line.
"""

from __future__ import annotations

__all__ = ["ComposedConfig", "build_config", "choice_config", "compose", "merge_groups", "recompose"]

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from s2s.compose.arguments import local_plugins, read_arguments
from s2s.compose.merging import MergedSettings, merge, set_nested
from s2s.compose.references import MUST_BE_GIVEN, resolve
from s2s.compose.selection import experiment_settings
from s2s.compose.settings import COMMAND_LINE, DEFAULT, Setting, has_reference, origin_prefix, settings_of
from s2s.compose.suggestions import command_name
from s2s.compose.yaml12 import plain, read_file
from s2s.config import Config
from s2s.errors import ConfigError, UserError
from s2s.registry import GROUPS, Choice

if TYPE_CHECKING:
    from s2s.plugin import Plugins
    from s2s.registry import Registry

T = TypeVar("T")


@dataclass(frozen=True)
class ComposedConfig(Generic[T]):
    """A configuration, and the origin of its values."""

    config: T
    origins: dict[str, str]
    """Option -> "default", "preset arch=… (path)", "file x.yaml" or "command line"."""
    explicit: dict[str, Any]
    """What presets, files and the command line set, as a nested mapping: `to_yaml(explicit)` is the shortest
    input that gives this configuration, and `recompose` merges a part of it into another."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Group -> the name it was chosen by: a preset's, or the entry's."""
    arguments: tuple[str, ...] = ()
    """What `compose` was given."""
    notes: Sequence[tuple[str, str]] = ()
    """Lines for the first screen under their headings, from the plugin that completed the configuration."""
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    """Files of that plugin to keep in the run directory: name -> content; None: there is no such file."""
    began: float = field(default_factory=time.monotonic)
    """When it was composed, which is what a command does first"""

    @property
    def local_plugins(self) -> tuple[str, ...]:
        """The names in `plugins=[…]`."""
        return local_plugins(self.arguments)


def compose(
    schema: type[T],
    arguments: Sequence[str],
    plugins: Plugins,
    recipe: Sequence[Setting] = (),
    measured: Sequence[Setting] = (),
    ignored: Collection[str] = (),
    experiment: str = "",
    *,
    complete: bool = False,
) -> ComposedConfig[T]:
    """The configuration that the arguments specify: `[file.yaml …] group=choice dotted.key=value`.

    The settings of a `recipe` rank between presets and files; those that were `measured` override everything. Of what
    files set, the options `ignored`, by their dotted keys, are left out. `experiment` applies if the arguments name
    none; what it leaves to its user may then stay open. complete: the arguments set every option, so that nothing
    follows from them (`s2s_settings`).
    """
    schema = plugins.registry.with_options(schema)
    settings = _settings(schema, arguments, plugins, recipe, ignored, experiment, complete=complete)
    composed = build_config(merge(schema, [*settings, *measured], plugins.registry))
    return replace(composed, arguments=tuple(arguments))


def recompose(config: T, explicit: Mapping[str, Any], plugins: Plugins) -> T:
    """Another configuration with `explicit` merged into it: a run's search with `search.beam=8`."""
    settings = [*settings_of(plain(config), "run"), *settings_of(explicit, COMMAND_LINE)]
    return build_config(merge(type(config), settings, plugins.registry)).config


def merge_groups(groups: Sequence[str], arguments: Sequence[str], plugins: Plugins) -> MergedSettings:
    """Some groups by themselves, to be described; with the sections of a run, which they may refer to."""
    schema = _schema_of(groups, plugins.registry)
    return merge(schema, _settings(schema, arguments, plugins, complete=True), plugins.registry)


def choice_config(group: str, name: str, options: Mapping[str, Any], registry: Registry) -> Choice:
    """The config of the entry or preset that `group=name` chooses, with these options; for a choice inside another."""
    origin = f"{group}={name}"
    settings = [Setting((group,), name, origin), *settings_of(options, origin, group)]
    merged = merge(_schema_of([group], registry), settings, registry)
    return _build(merged, merged.sections[group], f"{group}.", resolve(merged))


def _schema_of(groups: Sequence[str], registry: Registry) -> type:
    """Some groups, with the sections of a run."""
    kept = [(f.name, f.type, f) for f in fields(registry.with_options(Config)) if f.name not in GROUPS]
    group_fields = [(group, Choice, field(default_factory=Choice)) for group in groups]
    schema = make_dataclass("Shown", [*kept, *group_fields], namespace={"__doc__": "it: what is shown"})
    schema.__module__ = Config.__module__
    return schema


def _settings(
    schema: type,
    arguments: Sequence[str],
    plugins: Plugins,
    recipe: Sequence[Setting] = (),
    ignored: Collection[str] = (),
    advised: str = "",
    *,
    complete: bool,
) -> list[Setting]:
    """The settings of presets, recipe, files and command line, the weakest first."""
    asked = read_arguments(arguments)
    _check_present(asked.plugins, COMMAND_LINE, plugins)
    experiment, by, file_settings = asked.experiment, COMMAND_LINE, list[Setting]()
    for path in asked.files:
        tree, origin = read_file(path), f"file {path}"
        named, experiment_name = tree.pop("plugins", None), tree.pop("experiment", "")
        _check_present(named if isinstance(named, list) else [named] if named else [], origin, plugins)
        if experiment_name and not asked.experiment:
            experiment, by = str(experiment_name), origin
        file_settings += settings_of(_without(tree, ignored), origin)
    if experiment and "task" not in {item.name for item in fields(schema)}:
        raise ConfigError(f"{origin_prefix(by)}experiment={experiment}: {command_name(schema)} does not use it")
    presets = (
        experiment_settings(experiment, plugins.registry, by) if experiment else _advised(advised, plugins.registry)
    )
    given = [*presets, *file_settings, *asked.settings]
    of_plugins = [] if complete else plugins.hook.s2s_settings(settings=given, schema=schema, plugins=plugins)
    implied = [setting for settings in of_plugins for setting in settings]
    presets, file_settings, own = (
        [_without_choice(setting, implied) for setting in some] for some in (presets, file_settings, asked.settings)
    )
    return [*implied, *presets, *recipe, *file_settings, *own]


def _without_choice(setting: Setting, implied: Sequence[Setting]) -> Setting:
    """A setting without its choice of what `implied` chooses as well, so that the implied options are kept."""
    chosen = [other.value for other in implied if other.key == setting.key and isinstance(other.value, str)]
    is_choice = len(setting.key) == 1 and setting.key[0] in GROUPS and isinstance(setting.value, str | Mapping)
    if not chosen or not is_choice:
        return setting
    options = {"name": setting.value} if isinstance(setting.value, str) else dict(setting.value)
    same = options.get("name") == chosen[-1]
    return setting._replace(value={k: v for k, v in options.items() if k != "name"}) if same else setting


def _advised(experiment: str, registry: Registry) -> list[Setting]:
    """The settings of an experiment for the task that the user names, without what it leaves to its user."""
    settings = experiment_settings(experiment, registry)
    return [
        setting._replace(value=_given_by(setting.value, {"name", "base"} if setting.key == ("task",) else ()))
        for setting in settings
    ]


def _given_by(value: Any, without: Collection[str] = ()) -> Any:
    """A preset's value, without some keys and all that it leaves to its user."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: below for key, below in value.items() if key not in without and below != MUST_BE_GIVEN}
    return {key: _given_by(below) for key, below in kept.items()}


def _without(tree: Mapping[str, Any], keys: Collection[str], above: str = "") -> dict[str, Any]:
    """A tree of settings without those of these dotted keys."""
    kept = {name: below for name, below in tree.items() if above + str(name) not in keys}
    if not keys or above:
        return kept
    return {k: _without(v, keys, f"{k}.") if isinstance(v, Mapping) else v for k, v in kept.items()}


def _check_present(names: Sequence[Any], origin: str, plugins: Plugins) -> None:
    """A file never imports code: plugins are loaded from the command line only."""
    loaded = {Path(name).absolute() for name in plugins.loaded}
    for name in names:
        if Path(str(name)).absolute() not in loaded:
            what = f"'{name}' is not loaded; add plugins=[{name}] to the command line"
            raise ConfigError(f"{origin_prefix(origin)}plugins: {what}")


def build_config(merged: MergedSettings) -> ComposedConfig[Any]:
    """Resolve, convert and build."""
    values = resolve(merged)
    origins = {key: merged.origin(key) for key in merged.options}
    origins |= {f"{group}.name": DEFAULT for group in merged.open_settings}
    return ComposedConfig(_build(merged, merged.schema, "", values), origins, _given(merged, values), merged.chosen)


def _build(merged: MergedSettings, config: type, prefix: str, values: Mapping[str, Any]) -> Any:
    """An instance of the real dataclass, so that its own checks run."""
    arguments = {}
    for item in fields(config):
        key = prefix + item.name
        if key in merged.sections:
            arguments[item.name] = _build(merged, merged.sections[key], f"{key}.", values)
        elif key in merged.options:
            arguments[item.name] = values[key]
    try:
        return config(**arguments)
    except UserError:
        raise
    except Exception as error:  # the __post_init__ of a plugin may fail on any value in any way
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        section = prefix.removesuffix(".")
        raise ConfigError(reason if not section or f"{section}." in reason else f"{section}: {reason}") from error


def _given(merged: MergedSettings, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as a tree; references stay references, so that they follow when the other option is changed."""
    tree: dict[str, Any] = {}
    for key, (value, origin) in merged.values.items():
        if origin != DEFAULT:
            set_nested(tree, key.split("."), value if has_reference(value) else values[key], key)
    return tree | {group: below for group, below in merged.open_settings.items() if below}
