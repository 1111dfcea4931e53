"""Configurations as flat mappings, as differences, and as YAML."""

from __future__ import annotations

__all__ = ["differences", "flatten", "to_yaml"]

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from s2s.compose.yaml12 import to_text

COLUMN = 60
"""The last column at which the comments may be aligned"""

Path = tuple[str, ...]


def flatten(config: Any) -> dict[str, Any]:
    """Dotted key -> value of every option of a config dataclass, or of a nested mapping."""
    return {".".join(path): value for path, value in _leaves(config)}


def _leaves(config: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Inside a dataclass a mapping is the value of an option; inside a mapping it is a section, unless it is empty."""
    in_mapping = isinstance(config, Mapping)
    for name in config if in_mapping else [item.name for item in fields(config)]:
        value = config[name] if in_mapping else getattr(config, name)
        if is_dataclass(value) or (in_mapping and isinstance(value, Mapping) and value):
            yield from _leaves(value, (*above, str(name)))
        else:
            yield (*above, str(name)), value


def differences(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> the two values where two configurations differ; None where one lacks the option."""
    one, two = flatten(a), flatten(b)
    return {key: (one.get(key), two.get(key)) for key in {**one, **two} if one.get(key) != two.get(key)}


def to_yaml(config: Any, origins: Mapping[str, str] | None = None) -> str:
    """A configuration as YAML that composes to the same, each value on one line, with its origin if given."""
    lines = list(_lines(config))
    width = min(COLUMN, max((len(line) for line, _ in lines), default=COLUMN))
    comments = {key: f"  # {origin}" for key, origin in (origins or {}).items()}
    return "".join(f"{line:{width if origins else 0}}{comments.get(key, '')}".rstrip() + "\n" for line, key in lines)


def _lines(config: Any) -> Iterator[tuple[str, str]]:
    """Each line with the dotted key of its value; empty for the heading of a section."""
    sections: Path = ()
    for path, value in _leaves(config):
        for depth in range(len(path) - 1):
            if path[: depth + 1] != sections[: depth + 1]:
                yield f"{'  ' * depth}{to_text(path[depth])}:", ""
        sections = path[:-1]
        yield f"{'  ' * (len(path) - 1)}{to_text(path[-1])}: {to_text(value)}", ".".join(path)
