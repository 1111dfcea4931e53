"""The command line: `[file.yaml …] group=choice dotted.key=value`, in any order."""

from __future__ import annotations

__all__ = ["Arguments", "arguments_of", "local_plugins", "read_arguments"]

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.compose.options import hints_of, is_section
from s2s.compose.settings import COMMAND_LINE, Setting
from s2s.compose.yaml12 import read_value, to_text
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)


@dataclass(frozen=True)
class Arguments:
    """The arguments by kind, each kind in the order given."""

    files: tuple[Path, ...]
    experiment: str
    """A preset over the whole configuration; empty for none."""
    plugins: tuple[str, ...]
    """Local modules or files to load."""
    settings: tuple[Setting, ...]
    """A group or section before its options: the order on the command line does not matter."""


def read_arguments(arguments: Sequence[str]) -> Arguments:
    """Sort the arguments into their kinds."""
    files, settings, plugins, experiment = [], [], [], ""
    for argument in arguments:
        _check_utf8(argument)
        key, equals, text = argument.partition("=")
        if not equals or (_is_yaml(argument) and not _KEY.fullmatch(key)):
            files.append(_file(argument))
        elif not _KEY.fullmatch(key):
            raise ConfigError(f"{argument}: '{key}' is no option; write dotted.key=value, such as train.steps=1000")
        elif key == "plugins":
            plugins += _names(text)
        elif key == "experiment":
            if not text:  # often a shell variable that is not set
                raise ConfigError("experiment=: nothing is named; say experiment=NAME, or leave it out")
            experiment = text
        else:
            settings.append(Setting(tuple(key.split(".")), read_value(text, key), COMMAND_LINE))
    settings.sort(key=lambda setting: len(setting.key) > 1)
    return Arguments(tuple(files), experiment, tuple(plugins), tuple(settings))


def local_plugins(arguments: Sequence[str]) -> tuple[str, ...]:
    """The names in `plugins=[…]`, which are loaded before the other arguments are read."""
    texts = [a.partition("=")[2] for a in arguments if a.startswith("plugins=")]
    return tuple(name for text in texts for name in _names(text))


def arguments_of(schema: type, options: Mapping[str, Any]) -> list[str]:
    """Options as they are written on the command line of `schema`; those of a group or section may be a mapping.

    {"run": "010", "search": {"name": "beam", "alpha": 0.6}} -> ["run='010'", "search=beam", "search.alpha=0.6"]
    """
    hints, flat = hints_of(schema), dict[str, Any]()
    for key, value in options.items():
        if isinstance(value, Mapping) and is_section(hints.get(key)):
            flat |= {key if name == "name" else f"{key}.{name}": below for name, below in value.items()}
        else:
            flat[key] = value
    return [_written(key, value) for key, value in flat.items()]


def _written(key: str, value: Any) -> str:
    try:
        return f"{key}={to_text(value)}"
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def _names(text: str) -> list[str]:
    value = read_value(text, "plugins")
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"plugins={text}: expected modules or files, such as plugins=[my_arch,./mine.py]")
    return names


def _is_yaml(argument: str) -> bool:
    return argument.endswith((".yaml", ".yml"))


def _file(argument: str) -> Path:
    path = Path(argument)
    if not _is_yaml(argument):
        raise ConfigError(f"'{argument}' is neither a file.yaml nor key=value; write one of them")
    if not _exists(path):
        folder = path.parent if _exists(path.parent) else Path()
        import difflib

        near = difflib.get_close_matches(str(path), [str(p) for p in folder.glob("*.y*ml") if _exists(p)])
        raise ConfigError(f"no file {argument}.{f' Did you mean {near[0]!r}?' if near else ''}")
    return path


def _exists(path: Path) -> bool:
    """Path.exists, and False for an invalid path: one with a zero byte, or too long for the system."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _check_utf8(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{argument!r}: not valid UTF-8; rename the file, or set a UTF-8 locale") from error
