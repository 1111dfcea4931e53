"""Every option of a configuration: its name, type, default and documentation, read off its dataclass."""

from __future__ import annotations

__all__ = ["WIDTH", "Option", "Row", "as_text", "docs", "options", "rows", "type_text"]

import ast
import inspect
import itertools
import textwrap
import types
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from s2s.compose.yaml12 import to_text
from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

WIDTH = 100
"""Columns of everything that explains; a wider terminal makes no line easier to read"""


@dataclass(frozen=True)
class Option:
    """One value that can be set."""

    key: str
    """Dotted key, such as train.steps."""
    hint: Any
    """Its type."""
    field: Field[Any]
    owner: type
    """The dataclass in which the field stands."""
    default: Any
    """Its default; MISSING if there is none."""

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


def options(config: type, prefix: str = "", within: Any = None) -> Iterator[Option]:
    """The options of a config dataclass, those of its sections included, in the order in which they stand.

    `within` is the instance that the section around it has as its default, where that is not the class's own.
    """
    hints = hints_of(config)
    for item in fields(config):
        hint = hints[item.name]
        default = _default(item) if within is None else getattr(within, item.name)
        if is_section(hint):
            plain = within is None and (item.default_factory is hint or default is MISSING)
            yield from options(hint, f"{prefix}{item.name}.", None if plain else default)
        else:
            yield Option(prefix + item.name, hint, item, config, default)


def _default(item: Field[Any]) -> Any:
    if item.default_factory is not MISSING:
        return None if is_section(item.default_factory) else item.default_factory()
    return item.default


def is_section(hint: Any) -> bool:
    """Whether a field of this type is a mapping of options, not an option."""
    return isinstance(hint, type) and is_dataclass(hint)


def hints_of(config: type) -> dict[str, Any]:
    """Types of the fields, as objects."""
    try:
        return get_type_hints(config)
    except NameError as error:
        raise PluginError(
            f"{config.__module__}.{config.__qualname__}: {error}; a config's types are read when it runs, "
            f"so import them at the top of the file, not under TYPE_CHECKING"
        ) from error


def members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type.

    >>> members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def type_text(hint: Any) -> str:
    """A type as it stands in help and errors.

    >>> type_text(Literal["last", "best"] | None)
    'last | best | null'
    """
    if get_origin(hint) is Literal:
        return " | ".join(to_text(value) for value in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " | ".join(member.name for member in hint)
    if len(members(hint)) > 1:
        return " | ".join(type_text(member) for member in members(hint))
    if get_origin(hint) is not None:
        return f"{type_text(get_origin(hint))}[{', '.join(type_text(a) for a in get_args(hint))}]"
    names = {type(None): "null", Any: "any", Ellipsis: "..."}
    return names.get(hint) or str(getattr(hint, "__name__", hint))


def docs(config: type) -> dict[str, str]:
    """The docstring under every field, those of base classes included; none where there is no source."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if is_dataclass(base):
            found.update(_docs_of(base))
    return found


def _docs_of(config: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(config)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        item.target.id: inspect.cleandoc(below.value.value)
        for item, below in itertools.pairwise(body)
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }


@dataclass(frozen=True)
class Row:
    """One option as it is shown."""

    key: str
    type: str
    value: str
    default: str
    doc: str
    origin: str = "default"


def rows(found: Iterable[Option], said: Mapping[str, tuple[Any, str]]) -> list[Row]:
    """One row an option; `said` holds value and origin of those that are not as by default."""
    known: dict[type, dict[str, str]] = {}
    made = []
    for option in found:
        doc = known.setdefault(option.owner, docs(option.owner)).get(option.field.name, "")
        default = "(required)" if option.required else to_text(option.default)
        value, origin = said.get(option.key, (option.default, "default"))
        shown = default if origin == "default" else to_text(value)
        made.append(Row(option.key, type_text(option.hint), shown, default, " ".join(doc.split()), origin))
    return made


def as_text(made: Iterable[Row], title: str) -> str:
    """A block of lines for each option, to be read and to be searched."""
    lines = [title]
    for row in made:
        changed = "" if row.origin == "default" else f"  (default {row.default}; {row.origin})"
        lines.append(f"  {row.key} = {row.value}  [{row.type}]{changed}")
        if row.doc:
            lines.append(textwrap.fill(row.doc, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6))
    return "\n".join(lines) + "\n"
