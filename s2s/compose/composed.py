"""From the command line to one configuration: typed, checked, and every value with where it came from.

Order, whatever the order of the arguments: dataclass defaults, presets (base first), files, the command line.
"""

from __future__ import annotations

__all__ = [
    "ComposedConfig",
    "choose",
    "compose",
    "differences",
    "finish",
    "flatten",
    "recompose",
    "resolve",
    "to_yaml",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from s2s.compose.arguments import read_arguments
from s2s.compose.draft import COMMAND_LINE, Draft, command_of, draft
from s2s.compose.interpolation import UnresolvedError, interpolate, references
from s2s.compose.layers import Layer, blame, experiment_layers
from s2s.compose.typed import typed
from s2s.compose.yaml12 import plain, read_file, to_text
from s2s.config import Config
from s2s.errors import ConfigError, UserError, did_you_mean
from s2s.registry import GROUPS, Choice

if TYPE_CHECKING:
    from s2s.plugin import Plugins

T = TypeVar("T")

MUST_BE_GIVEN = "???"
"""What a preset says of an option that its user has to set."""


@dataclass(frozen=True)
class ComposedConfig(Generic[T]):
    """A configuration, and how it came about."""

    config: T
    origins: dict[str, str]
    """Option -> "default", "preset arch=… (path)", "file x.yaml" or "command line"."""
    given: dict[str, Any]
    """What presets, files and the command line said, as a nested mapping: `to_yaml(given)` is the shortest
    input that gives this configuration, and `recompose` lays a part of it over another."""
    chosen: dict[str, str] = field(default_factory=dict)
    """Group -> the name it was chosen by: a preset's, or the entry's."""


def compose(schema: type[T], arguments: Sequence[str], plugins: Plugins) -> ComposedConfig[T]:
    """The configuration that the arguments ask for: `[file.yaml …] group=choice dotted.key=value`."""
    return finish(start(schema, arguments, plugins))


def start(schema: type, arguments: Sequence[str], plugins: Plugins) -> Draft:
    """What is said about every option, before values are resolved and checked."""
    asked = read_arguments(arguments)
    _refuse_absent(asked.plugins, COMMAND_LINE, plugins)
    layers, experiment, by = [], asked.experiment, COMMAND_LINE
    for path in asked.files:
        tree, origin = read_file(path), f"file {path}"
        named = tree.pop("plugins", None)
        _refuse_absent(named if isinstance(named, list) else [named] if named else [], origin, plugins)
        wanted = tree.pop("experiment", "")
        if wanted and not asked.experiment:
            experiment, by = str(wanted), origin
        layers.append(Layer.of(origin, tree))
    if experiment and "task" not in {item.name for item in fields(schema)}:
        raise ConfigError(f"{blame(by)}experiment={experiment}: {command_of(schema)} does not use it")
    layers = [
        *experiment_layers(experiment, plugins.registry, by),
        *layers,
        Layer(COMMAND_LINE, asked.overrides),
    ]
    return draft(schema, layers, plugins.registry)


def choose(groups: Sequence[str], arguments: Sequence[str], plugins: Plugins) -> Draft:
    """Some groups by themselves, to be described; with the sections of a run, which they may refer to."""
    kept = [(f.name, f.type, f) for f in fields(Config) if f.name not in GROUPS]
    own = [(group, Choice, field(default_factory=Choice)) for group in groups]
    schema = make_dataclass("Shown", [*kept, *own], kw_only=True, namespace={"__doc__": "it: what is shown"})
    schema.__module__ = Config.__module__
    return start(schema, arguments, plugins)


def recompose(config: T, given: Mapping[str, Any], plugins: Plugins) -> T:
    """Another configuration with what was given laid over it: a run's search with `search.beam=8`."""
    layers = [Layer.of("run", plain(config)), Layer.of(COMMAND_LINE, given)]
    return finish(draft(type(config), layers, plugins.registry)).config


def _refuse_absent(names: Sequence[Any], origin: str, plugins: Plugins) -> None:
    """A file never imports code: whoever runs it says on the command line that it may."""
    loaded = {Path(name).absolute() for name in plugins.loaded}
    for name in names:
        if Path(str(name)).absolute() not in loaded:
            raise ConfigError(
                f"{blame(origin)}plugins: '{name}' is not loaded; add plugins=[{name}] to the command line"
            )


def finish(made: Draft) -> ComposedConfig[Any]:
    """Resolve, check and build."""
    values = resolve(made)
    origins = {key: made.origin(key) for key in made.options}
    return ComposedConfig(_build(made, made.schema, "", values), origins, _given(made, values), made.chosen)


def resolve(made: Draft, *, keep_unresolved: bool = False) -> dict[str, Any]:
    """The value of every option, typed; a reference that points outside may be kept as it stands."""
    values: dict[str, Any] = {}
    under_way: list[str] = []

    def value_of(key: str) -> Any:
        if key not in made.options:
            raise UnresolvedError(_dangling(made, under_way[-1], key))
        if key in under_way:
            raise ConfigError(f"{key}: its references go in a circle: {' -> '.join([*under_way, key])}")
        if key not in values:
            under_way.append(key)
            values[key] = _value(made, key, value_of)
            under_way.pop()
        return values[key]

    for key in made.options:
        try:
            value_of(key)
        except UnresolvedError:
            if not keep_unresolved:
                raise
            under_way.clear()
            values[key] = made.said[key][0] if key in made.said else made.options[key].default
    return values


def _dangling(made: Draft, key: str, target: str) -> str:
    if key not in made.said:
        return f"{key} follows {target}, which does not exist here; set {key}=…, or choose otherwise"
    return f"{key}: ${{{target}}}: no such option.{did_you_mean(target, made.options)}"


def _value(made: Draft, key: str, value_of: Any) -> Any:
    option = made.options[key]
    raw, origin = made.said.get(key, (option.default, "default"))
    if raw == MUST_BE_GIVEN or (key not in made.said and option.required):
        raise ConfigError(f"{blame(origin)}{key} must be given; add {key}=… to the command line")
    if references(raw):
        return typed(option, interpolate(key, raw, value_of), origin)
    return typed(option, raw, origin) if key in made.said else raw


def _build(made: Draft, config: type, prefix: str, values: Mapping[str, Any]) -> Any:
    """An instance of the real dataclass, so that its own checks run."""
    arguments = {}
    for item in fields(config):
        key = prefix + item.name
        if key in made.sections:
            arguments[item.name] = _build(made, made.sections[key], f"{key}.", values)
        elif key in made.options:
            arguments[item.name] = values[key]
    try:
        return config(**arguments)
    except UserError:
        raise
    except Exception as error:  # a stranger's __post_init__ may stumble over any value in any way
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        section = prefix.removesuffix(".")
        raise ConfigError(reason if not section or f"{section}." in reason else f"{section}: {reason}") from error


def _given(made: Draft, values: Mapping[str, Any]) -> dict[str, Any]:
    """What is said; references stay references, so that they follow when the other option is set anew."""
    raw = {key: value for key, (value, origin) in made.said.items() if origin != "default"}
    said = {key: value if references(value) else values[key] for key, value in raw.items()}
    return {**_nest(said), **{group: tree for group, tree in made.open.items() if tree}}


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *above, name = key.split(".")
        at = tree
        for part in above:
            at = at.setdefault(part, {})
        at[name] = value
    return tree


class _Section(dict[str, Any]):
    """A mapping of options, as opposed to an option whose value is a mapping."""


def _section(config: Any) -> _Section:
    """A config dataclass, or all of a nested mapping."""
    if isinstance(config, Mapping):
        return _Section({k: _section(v) if isinstance(v, Mapping) and v else v for k, v in config.items()})
    own = {item.name: getattr(config, item.name) for item in fields(config)}
    return _Section({name: _section(value) if is_dataclass(value) else value for name, value in own.items()})


def flatten(config: Any) -> dict[str, Any]:
    """Dotted key -> value of every option of a config dataclass, or of a nested mapping."""
    flat: dict[str, Any] = {}
    for key, value in (config if isinstance(config, _Section) else _section(config)).items():
        below = {f"{key}.{k}": v for k, v in flatten(value).items()} if isinstance(value, _Section) else None
        flat |= {key: value} if below is None else below
    return flat


def differences(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> the two values where two configurations differ; None where one lacks the option."""
    one, two = flatten(a), flatten(b)
    keys = [*one, *(key for key in two if key not in one)]
    return {key: (one.get(key), two.get(key)) for key in keys if one.get(key) != two.get(key)}


def to_yaml(config: Any, origins: Mapping[str, str] | None = None) -> str:
    """A configuration as YAML that composes to the same, each value on one line, with its origin if given."""
    lines = _lines(_section(config), "")
    if not origins:
        return "".join(f"{line}\n" for line, _ in lines)
    width = min(60, max(len(line) for line, _ in lines))
    comments = {key: f"  # {origin}" for key, origin in origins.items()}
    return "".join(f"{line:{width}}{comments.get(key, '')}".rstrip() + "\n" for line, key in lines)


def _lines(section: _Section, prefix: str) -> list[tuple[str, str]]:
    """Each line with the dotted key of its value; none for the head of a section."""
    indent, made = "  " * prefix.count("."), []
    for name, value in section.items():
        if isinstance(value, _Section):
            made += [(f"{indent}{to_text(name)}:", ""), *_lines(value, f"{prefix}{name}.")]
        else:
            made.append((f"{indent}{to_text(name)}: {to_text(value)}", prefix + name))
    return made
