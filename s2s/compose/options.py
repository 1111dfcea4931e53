"""Every option of a configuration: key, type and default, read from its dataclass."""

from __future__ import annotations

__all__ = ["Option", "hints_of", "is_section", "options_of", "sections", "type_text", "union_members"]

import types
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from s2s.compose.yaml12 import to_text
from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Option:
    """One value that can be set."""

    key: str
    """Dotted key, such as train.steps."""
    hint: Any
    """Its type."""
    field: Field[Any]
    owner: type
    """The dataclass of the field."""
    default: Any
    """Its default; MISSING if there is none."""

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


def options_of(config: type, prefix: str = "", defaults: Any = None) -> Iterator[Option]:
    """The options of a config dataclass and of its sections, in the order of the fields.

    `defaults` is the default instance of `config` in the section around it, where that is not `config()`.
    """
    hints = hints_of(config)
    for item in fields(config):
        hint = hints[item.name]
        default = _default(item, hint) if defaults is None else getattr(defaults, item.name)
        if is_section(hint):
            yield from options_of(hint, f"{prefix}{item.name}.", None if default is MISSING else default)
        else:
            yield Option(prefix + item.name, hint, item, config, default)


def _default(item: Field[Any], hint: Any) -> Any:
    """A field's default; None for a section whose options have their own, which some of them may lack."""
    if item.default_factory is MISSING:
        return item.default
    return None if is_section(hint) and item.default_factory is hint else item.default_factory()


def sections(config: type, key: str) -> dict[str, type]:
    """Dotted key -> dataclass of a section and of all sections inside it."""
    configs = {key: config}
    for name, hint in hints_of(config).items():
        if is_section(hint):
            configs |= sections(hint, f"{key}.{name}")
    return configs


def is_section(hint: Any) -> bool:
    """Whether a field of this type is a mapping of options, not an option."""
    return isinstance(hint, type) and is_dataclass(hint)


@lru_cache(maxsize=1024)
def hints_of(config: type) -> Mapping[str, Any]:
    """Types of the fields, as objects."""
    try:
        return MappingProxyType(get_type_hints(config))
    except NameError as error:
        raise PluginError(
            f"{config.__module__}.{config.__qualname__}: {error}; a config's types are read when it runs, "
            f"so import them at the top of the file, not under TYPE_CHECKING"
        ) from error


def union_members(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type.

    >>> union_members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def type_text(hint: Any) -> str:
    """A type as it is written in help and errors.

    >>> type_text(Literal["last", "best"] | None)
    'last | best | null'
    """
    if get_origin(hint) is Literal:
        return " | ".join(to_text(value) for value in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " | ".join(member.name for member in hint)
    if len(union_members(hint)) > 1:
        return " | ".join(type_text(member) for member in union_members(hint))
    if get_origin(hint) is not None:
        return f"{type_text(get_origin(hint))}[{', '.join(type_text(a) for a in get_args(hint))}]"
    names = {type(None): "null", Any: "any", Ellipsis: "..."}
    return names.get(hint) or str(getattr(hint, "__name__", hint))
