"""From the command line to one configuration: typed, checked, and every value with its origin.

Order, whatever the order of the arguments: dataclass defaults, presets (base first), files, the command line.
"""

from __future__ import annotations

__all__ = ["ComposedConfig", "build_config", "choice_config", "compose", "merge_groups", "recompose", "resolve"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from s2s.compose.arguments import read_arguments
from s2s.compose.conversion import convert
from s2s.compose.merging import Merged, merge
from s2s.compose.references import DanglingError, has_reference, substitute
from s2s.compose.selection import experiment_settings
from s2s.compose.settings import COMMAND_LINE, DEFAULT, Setting, blame, settings_of
from s2s.compose.suggestions import command_of
from s2s.compose.yaml12 import plain, read_file
from s2s.config import Config
from s2s.errors import ConfigError, UserError, did_you_mean
from s2s.registry import GROUPS, Choice

if TYPE_CHECKING:
    from s2s.plugin import Plugins
    from s2s.registry import Registry

T = TypeVar("T")

MUST_BE_GIVEN = "???"
"""The value of an option that a preset leaves to its user."""


@dataclass(frozen=True)
class ComposedConfig(Generic[T]):
    """A configuration, and the origin of its values."""

    config: T
    origins: dict[str, str]
    """Option -> "default", "preset arch=… (path)", "file x.yaml" or "command line"."""
    given: dict[str, Any]
    """What presets, files and the command line set, as a nested mapping: `to_yaml(given)` is the shortest
    input that gives this configuration, and `recompose` merges a part of it into another."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Group -> the name it was chosen by: a preset's, or the entry's."""
    arguments: tuple[str, ...] = ()
    """What `compose` was given."""
    notes: Sequence[tuple[str, str]] = ()
    """Lines for the first screen under their headings, of whoever completed the configuration."""
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    """What the run keeps of that: the content of a file of its directory; None: there is none."""


def compose(
    schema: type[T],
    arguments: Sequence[str],
    plugins: Plugins,
    recipe: Sequence[Setting] = (),
    measured: Sequence[Setting] = (),
) -> ComposedConfig[T]:
    """The configuration that the arguments ask for: `[file.yaml …] group=choice dotted.key=value`.

    The settings of a `recipe` lie between presets and files, those that were `measured` over everything.
    """
    composed = build_config(merge_arguments(schema, arguments, plugins, recipe, measured))
    return replace(composed, arguments=tuple(arguments))


def recompose(config: T, given: Mapping[str, Any], plugins: Plugins) -> T:
    """Another configuration with `given` merged into it: a run's search with `search.beam=8`."""
    settings = [*settings_of(plain(config), "run"), *settings_of(given, COMMAND_LINE)]
    return build_config(merge(type(config), settings, plugins.registry)).config


def merge_groups(groups: Sequence[str], arguments: Sequence[str], plugins: Plugins) -> Merged:
    """Some groups by themselves, to be described; with the sections of a run, which they may refer to."""
    return merge_arguments(_schema_of(groups), arguments, plugins)


def choice_config(group: str, name: str, options: Mapping[str, Any], registry: Registry) -> Choice:
    """The config of what `group=name` chooses, an entry or a preset, with these options: a choice inside another's."""
    origin = f"{group}={name}"
    settings = [Setting((group,), name, origin), *settings_of(options, origin, group)]
    merged = merge(_schema_of([group]), settings, registry)
    return _build(merged, merged.sections[group], f"{group}.", resolve(merged))


def _schema_of(groups: Sequence[str]) -> type:
    """Some groups, with the sections of a run."""
    kept = [(f.name, f.type, f) for f in fields(Config) if f.name not in GROUPS]
    own = [(group, Choice, field(default_factory=Choice)) for group in groups]
    schema = make_dataclass("Shown", [*kept, *own], kw_only=True, namespace={"__doc__": "it: what is shown"})
    schema.__module__ = Config.__module__
    return schema


def merge_arguments(
    schema: type,
    arguments: Sequence[str],
    plugins: Plugins,
    recipe: Sequence[Setting] = (),
    measured: Sequence[Setting] = (),
) -> Merged:
    """The settings of presets, files and command line, not yet resolved and converted."""
    asked = read_arguments(arguments)
    _refuse_absent(asked.plugins, COMMAND_LINE, plugins)
    experiment, by, settings = asked.experiment, COMMAND_LINE, list[Setting]()
    for path in asked.files:
        tree, origin = read_file(path), f"file {path}"
        named = tree.pop("plugins", None)
        _refuse_absent(named if isinstance(named, list) else [named] if named else [], origin, plugins)
        wanted = tree.pop("experiment", "")
        if wanted and not asked.experiment:
            experiment, by = str(wanted), origin
        settings += settings_of(tree, origin)
    if experiment and "task" not in {item.name for item in fields(schema)}:
        raise ConfigError(f"{blame(by)}experiment={experiment}: {command_of(schema)} does not use it")
    # a group or section before its options: the order on the command line does not count
    overrides = sorted(asked.overrides, key=lambda override: len(override[0]) > 1)
    settings += [Setting(key, value, COMMAND_LINE) for key, value in overrides]
    presets = experiment_settings(experiment, plugins.registry, by)
    return merge(schema, [*presets, *recipe, *settings, *measured], plugins.registry)


def _refuse_absent(names: Sequence[Any], origin: str, plugins: Plugins) -> None:
    """A file never imports code: plugins are loaded from the command line only."""
    loaded = {Path(name).absolute() for name in plugins.loaded}
    for name in names:
        if Path(str(name)).absolute() not in loaded:
            what = f"'{name}' is not loaded; add plugins=[{name}] to the command line"
            raise ConfigError(f"{blame(origin)}plugins: {what}")


def build_config(merged: Merged) -> ComposedConfig[Any]:
    """Resolve, convert and build."""
    values = resolve(merged)
    origins = {key: merged.origin(key) for key in merged.options}
    origins |= {f"{group}.name": DEFAULT for group in merged.open}
    return ComposedConfig(_build(merged, merged.schema, "", values), origins, _given(merged, values), merged.chosen)


def resolve(merged: Merged, *, keep_dangling: bool = False) -> dict[str, Any]:
    """The value of every option, converted; a reference to an option that does not exist may be kept as it stands."""
    values: dict[str, Any] = {}
    pending: list[str] = []

    def lookup(key: str) -> Any:
        if key not in merged.options:
            raise DanglingError(_dangling(merged, pending[-1], key))
        if key in pending:
            raise ConfigError(f"{key}: its references go in a circle: {' -> '.join([*pending, key])}")
        if key not in values:
            pending.append(key)
            values[key] = _value(merged, key, lookup)
            pending.pop()
        return values[key]

    for key in merged.options:
        try:
            lookup(key)
        except DanglingError:
            if not keep_dangling:
                raise
            pending.clear()
            values[key] = merged.value(key).value
    return values


def _dangling(merged: Merged, key: str, target: str) -> str:
    if key not in merged.values:
        return f"{key} follows {target}, which does not exist here; set {key}=…, or choose otherwise"
    return f"{key}: ${{{target}}}: no such option.{did_you_mean(target, merged.options)}"


def _value(merged: Merged, key: str, lookup: Any) -> Any:
    option, (value, origin) = merged.options[key], merged.value(key)
    if value == MUST_BE_GIVEN or (option.required and origin == DEFAULT):
        raise ConfigError(f"{blame(origin)}{key} must be given; add {key}=… to the command line")
    if has_reference(value):
        return convert(option, substitute(key, value, lookup), origin)
    return convert(option, value, origin) if key in merged.values else value


def _build(merged: Merged, config: type, prefix: str, values: Mapping[str, Any]) -> Any:
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


def _given(merged: Merged, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as a tree; references stay references, so that they follow when the other option is set anew."""
    tree: dict[str, Any] = {}
    for key, (value, origin) in merged.values.items():
        if origin != DEFAULT:
            *above, name = key.split(".")
            section = tree
            for part in above:
                section = section.setdefault(part, {})
            section[name] = value if has_reference(value) else values[key]
    return tree | {group: below for group, below in merged.open.items() if below}
