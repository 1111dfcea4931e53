"""YAML 1.2, restricted to what a configuration needs.

PyYAML implements version 1.1, where `no` (Norwegian) is false and `010` is 8. Only its parser is used: here a plain
scalar is true, false, null, a decimal number or text. Anchors, aliases, tags and duplicate keys are errors.
"""

from __future__ import annotations

__all__ = ["Float", "Int", "plain", "read_file", "read_value", "scalar", "to_text"]

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from s2s.errors import ConfigError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32

_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9_]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf")
_FAST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, where PyYAML was built with it, takes a tenth of the time"""
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class Int(int):
    """An integer with its spelling, for an option that turns out to be text."""

    text: str


class Float(float):
    """A number with its spelling, for an option that turns out to be text."""

    text: str


def scalar(text: str) -> Any:
    """The value of an unquoted scalar.

    >>> [scalar(t) for t in ("true", "no", "010", "1_000", "1e-3", "~")]
    [True, 'no', '010', 1000, 0.001, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    number: Int | Float
    if _INT.fullmatch(text):
        if len(text) > 30 or abs(int(text.replace("_", ""))) >= 2**63:
            raise ConfigError(f"{text[:30]}: an integer of more than 64 bits; quote it if it is text")
        number = Int(text.replace("_", ""))
    elif _FLOAT.fullmatch(text):
        number = Float(text.replace("_", "").replace(".inf", "inf"))
    else:
        return text
    number.text = text
    return number


def read_file(path: Path) -> dict[str, Any]:
    """The mapping that a file holds; an empty file is an empty mapping."""
    try:
        with path.open("rb") as file:
            raw, rest = file.read(MAX_BYTES), file.peek()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if rest:
        raise ConfigError(f"{path}: larger than {MAX_BYTES // 1024} KiB; is this a configuration file?")
    try:
        tree = copy.deepcopy(_parse_file(raw.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except _RefusedError as error:
        raise ConfigError(f"{path}:{error.line}: {error}") from error
    if not isinstance(tree, dict | None):
        raise ConfigError(f"{path}: expected `key: value` lines, got {_kind(tree)}")
    return tree or {}


def read_value(text: str, key: str) -> Any:
    """The value of a `key=text` argument: `[…]`, `{…}` and quoted text are YAML, anything else is a plain scalar."""
    if not text:
        return ""
    try:
        return _parse(text) if text[0] in "[{'\"" else _check_writable(scalar(text))
    except (_RefusedError, ConfigError) as error:
        raise ConfigError(f"{key}={text}: {error}") from error


class _RefusedError(Exception):
    def __init__(self, mark: yaml.Mark | None, message: str) -> None:
        super().__init__(message)
        self.line = mark.line + 1 if mark else 1


@lru_cache(maxsize=4)
def _parse_file(text: str) -> Any:
    """That of a run, of some hundred lines, is read several times by a command, and takes 0.01 s."""
    return _parse(text)


def _parse(text: str) -> Any:
    if "\t" not in text:  # libyaml takes tabs that PyYAML's own parser refuses
        with suppress(
            yaml.YAMLError, ValueError
        ):  # the message is that of PyYAML's own parser, with libyaml or without
            return _Tree(text, _FAST).read()
    try:
        return _Tree(text, yaml.SafeLoader).read()
    except yaml.MarkedYAMLError as error:
        raise _RefusedError(error.problem_mark, f"{error.problem or error.context}; quote text with signs") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: chr() of "\UFFFFFFFF"
        raise _RefusedError(None, getattr(error, "reason", "") or str(error)) from error


class _Tree:
    """The value of a document, from the events of a parser; errors for what a configuration does not need."""

    def __init__(self, text: str, parser: type[yaml.SafeLoader]) -> None:
        self.events: Iterator[Any] = yaml.parse(text, Loader=parser)

    def read(self) -> Any:
        """The value; None for an empty text."""
        next(self.events)  # the stream begins
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self.events), depth=0)
        next(self.events)  # the document ends
        if not isinstance(event := next(self.events), yaml.StreamEndEvent):
            raise _RefusedError(event.start_mark, "a second document (`---`); keep one")
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            what = "anchors and aliases (&x, *x) are not read; write the value out, or quote the text"
            raise _RefusedError(event.start_mark, what)
        if event.tag is not None:
            raise _RefusedError(event.start_mark, f"tags ({event.tag}) are not read; quote the text")
        if depth > MAX_DEPTH:
            raise _RefusedError(event.start_mark, f"nested deeper than {MAX_DEPTH}")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth + 1)
        return [self._value(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]

    def _until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := next(self.events), end):
            yield event

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        try:
            return _check_writable(event.value if event.style else scalar(event.value))
        except ConfigError as error:
            raise _RefusedError(event.start_mark, str(error)) from error

    def _mapping(self, depth: int) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for name in self._until(yaml.MappingEndEvent):
            key = self._value(name, depth)
            if isinstance(key, Int | Float):
                key = key.text
            if not isinstance(key, str):
                raise _RefusedError(name.start_mark, f"a key must be text, not {_kind(key)}; quote it")
            below = next(self.events)
            if ":" in key and _is_empty(below) and not name.style:
                begin, _, end = key.partition(":")
                raise _RefusedError(name.start_mark, f"{key}: write a blank after the colon, as in {begin}: {end}")
            if key in tree:
                raise _RefusedError(name.start_mark, f"'{key}' stands here twice; keep one")
            tree[key] = self._value(below, depth)
        return tree


def _is_empty(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and not event.value and not event.style


def _check_writable(value: Any) -> Any:
    """ConfigError for text that no path, argument or UTF-8 file can hold, although escapes in quotes can spell it."""
    if isinstance(value, str) and any(char == "\0" or "\ud800" <= char <= "\udfff" for char in value):
        raise ConfigError("a zero byte or half a character stands in the text; leave it out")
    return value


def _kind(value: Any) -> str:
    names = {bool: "true or false", list: "a list", dict: "a mapping", str: "text"}
    return "nothing" if value is None else names.get(type(value), "a number")


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Quotes text that either version of YAML would read as something else."""

    def represent_text(self, value: str) -> yaml.ScalarNode:
        style = "'" if _FLOAT.fullmatch(value) else None  # 1e5 is text for PyYAML; it quotes all other scalars itself
        if not value.isprintable() or value.startswith("="):
            style = '"'  # the style that escapes line breaks
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def to_text(value: Any) -> str:
    """One line of YAML that `read_file` reads as the same value; raises ConfigError for one that YAML cannot hold."""
    style: dict[str, Any] = {"default_flow_style": True, "width": float("inf"), "allow_unicode": True}
    try:
        written = yaml.dump(plain(value), Dumper=_Dumper, sort_keys=False, **style)
    except yaml.representer.RepresenterError as error:
        kind = type(error.args[-1])
        what = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        raise ConfigError(f"a value of type {what}: give text, a number, a list or a mapping") from None
    return written.removesuffix("\n").removesuffix("\n...")


def plain(value: Any) -> Any:
    """The same value in dicts, lists and built-in scalars: what YAML can hold."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [plain(v) for v in value]
    if callable(listed := getattr(value, "tolist", None)) and not isinstance(value, str):  # of NumPy, torch
        return plain(listed())
    if type(value).__module__ == "torch" and type(value).__name__ == "device":  # torch is not imported here
        return str(value)
    return next((kind(value) for kind in (bool, int, float, str) if isinstance(value, kind)), value)
