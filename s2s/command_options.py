"""Options that plugins add to a command: one dataclass of the command's own options and all added ones.

A plugin's dataclass derives from the command's, and so may check its options against all others. The combined
dataclass derives from all of them, and is flat: an option is `mbr=chrf`, whichever plugin added it.
"""

from __future__ import annotations

__all__ = ["AddedOptions", "check_fits", "command_config", "with_added"]

from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from functools import cache, cached_property
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

T = TypeVar("T")


@dataclass(frozen=True)
class AddedOptions:
    """Options that a plugin adds: the fields that `config` has beside those of the command."""

    config: type
    plugin: str

    @cached_property
    def names(self) -> list[str]:
        """Names of the options, in their order."""
        return [name for name in get_annotations(self.config) if name in vars(self.config)["__dataclass_fields__"]]

    @cached_property
    def command(self) -> str:
        """The name of the dataclass that the options are added to, with its module."""
        return _full_name(command_config(self.config))


def command_config(config: type) -> type:
    """The dataclass of a command, or of a section of one, from which `config` derives."""
    return [base for base in config.__mro__ if is_dataclass(base)][-1]


def _full_name(config: type) -> str:
    return f"{config.__module__}.{config.__qualname__}"


def check_fits(new: AddedOptions, before: Sequence[AddedOptions]) -> None:
    """Raises PluginError if `new` is not a dataclass of further options, or has an option that already exists."""
    config: Any = new.config
    what = f"plugin '{new.plugin}': options {getattr(config, '__qualname__', config)}"
    if not isinstance(config, type) or "__dataclass_fields__" not in vars(config) or command_config(config) is config:
        raise PluginError(
            f"{what}: expected a @dataclass(kw_only=True) that derives from a command's, as GenerateConfig"
        )
    try:
        get_type_hints(config)
    except NameError as error:
        raise PluginError(f"{what}: {error}; import types at the top of the file, not under TYPE_CHECKING") from None
    command = command_config(config)
    owners = dict.fromkeys((item.name for item in fields(command)), command.__qualname__)
    owners |= {name: f"plugin '{one.plugin}'" for one in before if one.command == new.command for name in one.names}
    for name in new.names:
        if name in owners:
            raise PluginError(f"{what}: {owners[name]} has an option '{name}' already; choose another name")
    check = vars(config).get("__post_init__")
    if check and "__class__" not in check.__code__.co_freevars:
        raise PluginError(
            f"{what}: its __post_init__ must call super().__post_init__(), as other plugins' checks follow"
        )


def with_added(config: type[T], added: Iterable[AddedOptions]) -> type[T]:
    """`config` with the options that were added to it and to its sections; `config` itself if there are none."""
    names = set(_commands(config))
    whole: type[T] = _whole(cast("Hashable", config), tuple(one.config for one in added if one.command in names))
    return whole


def _commands(config: type) -> Iterator[str]:
    """The names of a command's dataclass and those of its sections."""
    yield _full_name(config)
    for item in fields(config):
        if isinstance(item.default_factory, type) and is_dataclass(item.default_factory):
            yield from _commands(item.default_factory)


@cache
def _whole(config: Any, added: tuple[type, ...]) -> Any:
    """The dataclass added last comes first in the method resolution order, so that its options are listed last."""
    hints = get_type_hints(config)
    inner: dict[str, Any] = {
        item.name: hints[item.name] for item in fields(config) if item.default_factory is hints[item.name]
    }
    sections = [name for name, hint in inner.items() if is_dataclass(hint)]
    whole = {name: _whole(inner[name], added) for name in sections}
    metadata = {item.name: item.metadata for item in fields(config)}
    changed = [
        (name, section, field(default_factory=section, metadata=metadata[name]))
        for name, section in whole.items()
        if section is not inner[name]
    ]
    options = [one for one in reversed(added) if command_config(one) is config]
    if not options and not changed:
        return config
    return make_dataclass(
        config.__name__,
        changed,
        bases=(*options, config),
        kw_only=True,
        namespace={"__doc__": config.__doc__, "__module__": config.__module__, "__qualname__": config.__qualname__},
    )
