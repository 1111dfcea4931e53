"""Whether a command may write where its options say: not over what it reads, nor over what s2s did not write."""

from __future__ import annotations

__all__ = ["check_output"]

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.compose.yaml12 import read_file
from s2s.errors import ConfigError
from s2s.io.outputs import check_not_read, check_replaceable
from s2s.run.paths import RESOLVED, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from s2s.compose import ComposedConfig

NAMES_RUN = frozenset(("run", "model", "fusion", "init_from", "teachers", "tokenizer"))
"""Options whose values are names of runs"""
MARKS = (RESOLVED, "MANIFEST.json", "manifest.json", "export.json")
"""What a run, a checkpoint, prepared data, an exported model have"""


def check_output(
    composed: ComposedConfig[Any],
    option: str,
    paths: Sequence[Path],
    read: Iterable[str | os.PathLike[str]] = (),
    overwrite: bool | None = None,
) -> None:
    """Raise ConfigError if one of `paths`, which `option` names, is what the command reads, or lies in it.

    overwrite: whether files may be replaced that s2s did not write; None: the command finds out by itself.

    What a command reads is every file and folder that another option names, the files of settings among its arguments,
    standard input, and the runs, with the files of their configurations. read: what else.
    """
    known = {Path(file): str(file) for file in [*read, *composed.local_plugins]}
    known[Path("/dev/stdin")] = "standard input"  # of < FILE, the file
    known |= {Path(name): name for name in composed.arguments if "=" not in name and _is_there(name)}
    known |= _named(composed.config, option)
    for folder in list(known):
        with suppress(OSError, ConfigError):
            if (folder / RESOLVED).is_file():
                known = _named(read_file(folder / RESOLVED), "run") | known
    values = ", ".join(sorted({value for key, value in _texts(composed.config) if key == option}))
    written = f"{option}={values}"
    check_not_read(written, paths, known)
    if overwrite is not None:
        for path in paths:
            check_replaceable(written, path, overwrite=overwrite)


def _named(config: Any, option: str) -> dict[Path, str]:
    """What the values of all options but one name, with the option."""
    return {
        path: f"{path} ({key})" if str(path) == value else f"{path} ({key}={value})"
        for key, value in _texts(config)
        if key != option
        for path in _meant(key, value)
    }


def _meant(key: str, value: str) -> Iterator[Path]:
    """The files and folders that the value of an option may mean.

    A word such as de or last may be a language or a checkpoint, and neither the folder of that name nor a run.
    """
    # os.path, since there are a hundred values, and Path's own raise on a name that is too long
    path = os.path.expanduser(value)  # noqa: PTH111
    if os.path.isfile(path):  # noqa: PTH113
        yield Path(path)
    elif os.path.isdir(path):  # noqa: PTH112
        is_ours = any(_is_there(Path(path, mark)) for mark in MARKS)
        is_named = "/" in value.rstrip("/") and not key.endswith("prepared")
        if is_ours or is_named:
            yield Path(path)
    if not NAMES_RUN.isdisjoint(key.split(".")):
        name = value.partition(":")[0]  # of RUN:CHECKPOINT
        yield from (path for path in (RUNS / name, Path(name)) if _is_there(path / RESOLVED))


def _is_there(path: str | Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110


def _texts(config: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Dotted key and value of everything in a configuration that may be a path."""
    if isinstance(config, str | os.PathLike):
        if (text := os.fspath(config)) and "\0" not in text:
            yield above, text
    elif isinstance(config, Mapping):
        for key, value in config.items():
            yield from _texts(key, above)
            yield from _texts(value, f"{above}.{key}" if above else str(key))
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _texts(value, above)
    elif is_dataclass(config):
        for item in fields(config):
            yield from _texts(getattr(config, item.name), f"{above}.{item.name}" if above else item.name)
