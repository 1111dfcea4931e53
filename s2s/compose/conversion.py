"""A YAML value converted to the type of its option, strictly: nothing is converted that may mean something else."""

from __future__ import annotations

__all__ = ["convert", "entry_config"]

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from s2s.compose.options import Option, hints_of, options, type_text, union_members
from s2s.compose.settings import blame
from s2s.compose.yaml12 import Float, Int, plain, to_text
from s2s.config.renamed import targets
from s2s.errors import ConfigError, PluginError, did_you_mean

if TYPE_CHECKING:
    from s2s.registry import Choice, Entry

_ORDER = (type(None), bool, int, float)
"""The order in which the members of a union are tried; str comes last, since any number is text, too."""


class _MisfitError(Exception):
    """A value that does not fit, with a hint for the user; may be empty."""


class _UnsupportedError(Exception):
    """A type that YAML has no value for."""


def convert(option: Option, value: Any, origin: str) -> Any:
    """The value in the type of its option: tuples, paths, enums and dataclasses made of what YAML can write."""
    try:
        return _convert(value, option.hint)
    except _MisfitError as misfit:
        hint = str(misfit)
    except _UnsupportedError as error:
        what = f"{option.owner.__qualname__}.{option.field.name}: options of type {error} are not supported"
        raise PluginError(what) from error
    default = "it has no default" if option.required else f"the default is {to_text(option.default)}"
    shown = getattr(value, "text", None) or to_text(value)[:200]
    what = f"{blame(origin)}{option.key}={shown}: expected {type_text(option.hint)}; {default}."
    raise ConfigError(f"{what} {hint.strip()}".rstrip())


def _convert(value: Any, hint: Any) -> Any:
    kind, of = get_origin(hint) or hint, get_args(hint)
    if len(union_members(hint)) > 1:
        return _convert_union(value, union_members(hint))
    if kind is Any:
        return plain(value)
    if kind is Literal:
        return _convert_literal(value, of)
    if kind in (list, tuple, Sequence):
        return _convert_sequence(value, tuple if kind is tuple else list, of or (Any,))
    if kind in (dict, Mapping) and of[:1] in ((), (str,), (Any,)):
        return {str(name): _convert(below, of[1] if of else Any) for name, below in _expect(value, Mapping).items()}
    if not isinstance(kind, type) or of:
        raise _UnsupportedError(type_text(hint))
    if is_dataclass(kind):
        return _convert_dataclass(value, kind)
    return _convert_scalar(value, kind)


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, str) and kind is not str):
        raise _MisfitError
    return value


def _convert_union(value: Any, members: tuple[Any, ...]) -> Any:
    hints = []
    for member in sorted(members, key=lambda m: _ORDER.index(m) if m in _ORDER else len(_ORDER) + (m is str)):
        try:
            return _convert(value, member)
        except _MisfitError as misfit:
            hints.append(str(misfit))
    raise _MisfitError(next((hint for hint in hints if hint), ""))


def _convert_literal(value: Any, allowed: tuple[Any, ...]) -> Any:
    converted = _convert_union(value, tuple({type(one): None for one in allowed}))
    if converted not in allowed:
        raise _MisfitError(did_you_mean(converted, map(str, allowed)) if isinstance(converted, str) else "")
    return converted


def _convert_sequence(value: Any, kind: type, of: tuple[Any, ...]) -> Any:
    items = _expect(value, Sequence)
    fixed = kind is tuple and of[-1] is not Ellipsis
    if fixed and len(items) != len(of):
        raise _MisfitError
    return kind(_convert(item, of[i] if fixed else of[0]) for i, item in enumerate(items))


def _convert_dataclass(value: Any, kind: Any) -> Any:
    hints = hints_of(kind)
    if unknown := _expect(value, Mapping).keys() - hints:
        raise _MisfitError(f"{kind.__name__} has no '{min(unknown)}'.{did_you_mean(min(unknown), hints)}")
    arguments = {name: _convert(below, hints[name]) for name, below in value.items()}
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:  # a field without default, or a check of its own
        raise _MisfitError(str(error)) from error


def _convert_scalar(value: Any, kind: type) -> Any:
    if kind in (int, float):
        return _convert_number(value, kind)
    if kind is bool and isinstance(value, str):
        raise _MisfitError("Write true or false.")
    if kind in (bool, type(None)):
        return _expect(value, kind)
    if issubclass(kind, str | Enum | PurePath):
        return _convert_text(value, kind)
    raise _UnsupportedError(type_text(kind))


def _convert_number(value: Any, kind: type) -> Any:
    if isinstance(value, str) and value.startswith("0"):
        raise _MisfitError("A number is written without leading zeros.")
    if isinstance(value, float) and kind is int:
        raise _MisfitError("Write 100_000 for 1e5.")
    if isinstance(value, bool):
        raise _MisfitError
    return kind(_expect(value, int | float))


def _convert_text(value: Any, kind: Any) -> Any:
    if isinstance(value, bool):
        raise _MisfitError(f"""If the word is meant, quote it: '"{to_text(value)}"'.""")
    text = value.text if isinstance(value, Int | Float) else _expect(value, str)
    if text == "???":
        raise _MisfitError("'???' stands for a missing value.")
    if issubclass(kind, Enum) and text not in kind.__members__:
        raise _MisfitError
    return kind[text] if issubclass(kind, Enum) else kind(text)


def entry_config(entry: Entry, values: Mapping[str, Any], key: str) -> Choice:
    """The config of an entry that is named inside another's option, such as a metric of a task, with these options.

    `key` is where they stand in the configuration, for the error message.
    """
    known = {option.field.name: option for option in options(entry.config, f"{key}.")}
    for name in values:
        if name not in known:
            near = [target for target in targets(f"{key}.{name}") if target.rpartition(".")[2] in known]
            hint = did_you_mean(near[0].rpartition(".")[2] if near else str(name), known.keys() - {"name"})
            raise ConfigError(f"{key}.{name}: no such option.{hint}")
    return entry.config(**{name: convert(known[name], value, "command line") for name, value in values.items()})
