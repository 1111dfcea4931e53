"""Completions for each command: its flags, its options, and the values of options with a fixed list of values."""

from __future__ import annotations

__all__ = ["words_of_commands"]

import importlib
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import distribution
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from s2s.cli.command import FLAGS
from s2s.compose.options import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from s2s.registry import Registry

RUNS = ("run", "train.init_from", "task.tokenizer", "model")
"""Options that name a run: their values are the runs under runs/ when Tab is pressed"""
WITHOUT_OPTIONS = {"s2s-plugins": ["list", "show", "plugins="], "s2s-completion": ["bash", "fish", "zsh"]}
"""Commands that take words instead of options"""


def words_of_commands(registry: Registry) -> dict[str, list[str]]:
    """Command -> its words, such as `arch=transformer_big`, or `train.steps=` if any value may follow."""
    points = (p for p in distribution("s2s-toolkit").entry_points if p.group == "console_scripts")
    found = {point.name: _words(point.name, importlib.import_module(point.module), registry) for point in points}
    return {command: sorted(words) for command, words in sorted(found.items()) if words} | WITHOUT_OPTIONS


def _words(command: str, module: ModuleType, registry: Registry) -> set[str]:
    words = set[str]()
    for schema in vars(module).values():
        heading = (getattr(schema, "__doc__", None) or "").partition(":")[0].split()
        if isinstance(schema, type) and is_dataclass(schema) and heading[:1] == [command]:
            words |= {*FLAGS, *heading[1:], *_of_schema(registry.with_options(schema), registry)}
    return words


def _of_schema(schema: type, registry: Registry) -> Iterator[str]:
    groups = [item.name for item in fields(schema) if item.name in registry.groups]
    for option in options_of(schema):
        if option.key.partition(".")[0] not in groups:
            yield from _values(option.key, option.hint)
    for group in [*groups, *(["experiment"] if "task" in groups else [])]:
        yield from (f"{group}={name}" for name in registry.names(group))
    for (group, _), entry in registry.entries.items():
        if group in groups:
            for option in options_of(entry.config, f"{group}."):
                if option.key != f"{group}.name":
                    yield from _values(option.key, option.hint)
    yield "plugins="


def _values(key: str, hint: Any) -> list[str]:
    """key=value for each value of an option with a fixed list of values, else key=."""
    return [f"{key}={value}" for value in _choices(hint)] or [f"{key}="]


def _choices(hint: Any) -> list[str]:
    if hint is bool:
        return ["true", "false"]
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [member.name for member in hint]
    return []
