"""Loading a run whose plugins are not installed any more, with provenance.json, which records the options they added.

Option -> its value, the plugin that declares it, and whether the run needs that plugin to continue. Only options of
plugins are recorded, unless they are neutral or at their defaults. To generate, a run needs none of them.
"""

from __future__ import annotations

__all__ = [
    "ConfigForTexts",
    "RunConfig",
    "check_not_needed",
    "continued",
    "read_config",
    "read_config_for_texts",
    "record_options",
]

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.checkpoint import steps
from s2s.compose import compose
from s2s.compose.earlier import earlier_settings, with_defaults, with_earlier
from s2s.compose.options import hints_of, is_section
from s2s.compose.settings import Setting
from s2s.compose.yaml12 import read_file, to_text
from s2s.config import Config, Mark
from s2s.config.data import DataConfig
from s2s.errors import CheckpointError, UserError
from s2s.io.atomic import write_file
from s2s.io.json_files import dump_record, read_record
from s2s.registry import Choice
from s2s.run.paths import RESOLVED
from s2s.run.record import is_as_written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from dataclasses import Field
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.plugin import Plugins
    from s2s.registry import Registry

FILE = "provenance.json"


class RunConfig(NamedTuple):
    """What a run's resolved.yaml means to the plugins that are loaded."""

    config: Config
    notes: list[str]
    """For each option of a plugin that is not loaded, if it was set: what it was"""


@dataclass(kw_only=True)
class ConfigForTexts:
    """The sections of `Config` that reading and writing texts needs, with its defaults; they are described there."""

    task: Choice = field(default_factory=Choice)
    search: Choice = field(default_factory=lambda: Choice(name="beam"))
    data: DataConfig = field(default_factory=DataConfig)


def read_config(directory: Path, plugins: Plugins) -> RunConfig:
    """The configuration of a run; options of plugins that are not loaded are left out: they had their
    effect in training.

    Raises ConfigError for an option that neither the run nor any plugin has declared, so that a misspelt one in a file
    that was edited does not pass.
    """
    path, recorded = directory.absolute() / RESOLVED, _recorded(directory)
    schema = plugins.registry.with_options(Config)
    tree = read_file(path)
    unknown = [key for key in _options(tree) if not _is_declared(key, schema)]
    ignored = [key for key in unknown if key in recorded or is_as_written(path)]
    absent = {key: option for key, option in recorded.items() if not _is_declared(key, schema)}
    settings = [
        Setting(tuple(key.split(".")), option["value"], FILE) for key, option in recorded.items() if key not in absent
    ]
    earlier = earlier_settings(tree, plugins.registry, schema)
    config = compose(
        Config, [str(path)], plugins, recipe=settings, measured=earlier, ignored=ignored, complete=True
    ).config
    return RunConfig(config, [_note(key, option) for key, option in absent.items()])


def read_config_for_texts(directory: Path, plugins: Plugins) -> ConfigForTexts | None:
    """These sections of the configuration of a run, as `read_config` gives them; a start without torch takes 0.02 s
    less with them alone.

    None if `read_config` may have something to report: of a file that was edited, or of options of plugins.
    """
    path, names = directory.absolute() / RESOLVED, {item.name for item in fields(ConfigForTexts)}
    try:
        if not is_as_written(path) or _recorded(directory):
            return None
        tree = read_file(path)
        others = tree.keys() - names
        kept = {key: tree[key] for key in tree if key in names}
        earlier = earlier_settings(kept, plugins.registry, plugins.registry.with_options(ConfigForTexts))
        return compose(ConfigForTexts, [str(path)], plugins, measured=earlier, ignored=others, complete=True).config
    except (OSError, UserError):
        return None


def continued(composed: ComposedConfig[Config], directory: Path, registry: Registry) -> ComposedConfig[Config]:
    """The configuration in which options that are newer than the run in `directory`, if it has begun, do what it began
    with; complete, for later versions to compare."""
    if steps(directory / "checkpoints"):
        with suppress(UserError):  # a damaged file is reported when the run is compared with its own
            composed = with_earlier(composed, read_file(directory / RESOLVED), registry)
    return with_defaults(composed, registry)


def check_not_needed(directory: Path, plugins: Plugins) -> None:
    """Raise CheckpointError if continuing the run requires a plugin that is not loaded."""
    schema = plugins.registry.with_options(Config)
    for key, option in _recorded(directory).items():
        if option["needed"] and not _is_declared(key, schema):
            raise CheckpointError(
                f"{directory} cannot be continued: {_note(key, option)}. Load the plugin, or give another run=…"
            )


def record_options(directory: Path, config: Config, registry: Registry) -> None:
    """Write the options that plugins have added to `config`; those of plugins that are gone stay recorded."""
    recorded = _recorded(directory)
    gone = {key: option for key, option in recorded.items() if not _is_declared(key, type(config))}
    options = {**gone, **dict(_added(config, registry))}
    if options or recorded:
        write_file(directory / FILE, dump_record({"options": options}))


def _added(config: Config, registry: Registry) -> Iterator[tuple[str, dict[str, Any]]]:
    """The options of plugins that have other values than their defaults, and are not neutral."""
    sections = {"": config, **{f"{item.name}.": getattr(config, item.name) for item in fields(config)}}
    for added in registry.added:
        for prefix, section in sections.items():
            if not isinstance(section, added.config):
                continue
            neutral, at_start = (Mark.options(added.config, mark) for mark in (Mark.NEUTRAL, Mark.AT_START))
            for item in fields(added.config):
                value = getattr(section, item.name)
                if item.name in added.names and item.name not in neutral and value != _default(item):
                    needed = item.name not in at_start
                    yield prefix + item.name, {"value": value, "plugin": added.plugin, "needed": needed}


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _options(tree: Mapping[str, Any]) -> Iterator[str]:
    """The keys in a file of settings, those of a section one by one."""
    for root, below in tree.items():
        yield from (f"{root}.{name}" for name in below) if isinstance(below, Mapping) and below else (root,)


def _is_declared(key: str, schema: type) -> bool:
    """Whether an option is among those of a command or its sections; those of groups depend on what is chosen."""
    root, _, name = key.partition(".")
    hint = hints_of(schema).get(root)
    if not name or hint is None:
        return hint is not None
    return not is_section(hint) or issubclass(hint, Choice) or name in {item.name for item in fields(hint)}


def _recorded(directory: Path) -> dict[str, dict[str, Any]]:
    """What provenance.json records; nothing if there is no such file, as in a run of an earlier version."""
    path = directory / FILE
    try:
        options = read_record(path)["options"]
        return {key: {name: option[name] for name in ("value", "plugin", "needed")} for key, option in options.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): put it back, or remove it") from None


def _note(key: str, option: Mapping[str, Any]) -> str:
    return f"{key}={to_text(option['value'])} is an option of the plugin {option['plugin']}, which is not loaded"
