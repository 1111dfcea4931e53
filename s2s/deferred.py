"""A plugin whose registrations are known by name, and which is imported when one of them is first used."""

from __future__ import annotations

__all__ = ["DeferredPlugin", "PluginModules", "Record", "module_files"]

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, wraps
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.command_options import AddedOptions
from s2s.hooks import GROUP
from s2s.registry import Choice, Entry, Factory, Registry

if TYPE_CHECKING:
    import pluggy


class Record(NamedTuple):
    """What a plugin registers."""

    groups: dict[str, str]
    """The groups that it opens, with their contracts"""
    entries: list[tuple[str, str]]
    """Group and name of each"""
    options: list[tuple[str, list[str]]]
    """The command and the names of each dataclass of options"""
    hooks: dict[str, tuple[list[str], dict[str, Any]]]
    """Arguments and marks of its implementations, for pluggy"""


class DeferredPlugin:
    """A plugin that is imported when something of its is first used."""

    def __init__(self, name: str, module: str, record: Record, registry: Registry) -> None:
        self.name, self.module_name, self.record, self.registry = name, module, record, registry

    @cached_property
    def module(self) -> ModuleType:
        return importlib.import_module(self.module_name)

    @property
    def imported(self) -> ModuleType | None:
        """The module, if anything has imported it."""
        return sys.modules.get(self.module_name)

    @cached_property
    def registered(self) -> Registry:
        """What it registers, by itself."""
        given = _CheckedRegistry()
        given.plugin = self.name
        given.groups = {k: v for k, v in self.registry.groups.items() if k not in self.record.groups}
        self.module.s2s_register(given)
        alone = copy(given)
        # Factories look other entries up in the registry that their plugin was given: it becomes that of all plugins.
        given.__dict__ = self.registry.__dict__
        return alone

    def register(self, manager: pluggy.PluginManager) -> None:
        """Register what is known of it, under the checks that need no more than names."""
        for group, contract in self.record.groups.items():
            self.registry.group(group, contract)
        for group, entry in self.record.entries:
            self.registry.put(DeferredEntry(group, entry, self))
        for n, (command, names) in enumerate(self.record.options):
            self.registry.added.append(DeferredOptions(command, names, self, n))
        if self.record.hooks:
            implementations = {hook: self._implementation(hook, manager) for hook in self.record.hooks}
            manager.register(_Implementations(**implementations), self.name)

    def _implementation(self, hook: str, manager: pluggy.PluginManager) -> Any:
        """A function that takes all arguments of the hook, and calls the plugin's with its own, `arguments`."""
        arguments, marks = self.record.hooks[hook]
        specification = getattr(manager.hook, hook).spec

        @wraps(specification.function)
        def implementation(*values: Any) -> Any:
            given = dict(zip(specification.argnames, values, strict=True))
            return getattr(self.module, hook)(*(given[argument] for argument in arguments))

        vars(implementation).update({f"{GROUP}_impl": marks, "arguments": arguments})
        return implementation


class _CheckedRegistry(Registry):
    """For options that have been checked when the index was written, which takes a third of their import."""

    def options(self, config: type) -> None:
        self.added.append(AddedOptions(config, self.plugin))


class _Implementations(SimpleNamespace):
    """Functions for pluggy, which looks at everything that `dir` names."""

    def __dir__(self) -> list[str]:
        return list(vars(self))


class DeferredEntry(Entry):
    """An entry of a plugin that may not have been imported yet."""

    def __init__(self, group: str, name: str, owner: DeferredPlugin) -> None:
        vars(self).update(group=group, name=name, plugin=owner.name, owner=owner)

    @property
    def real(self) -> Entry:
        """The entry as the plugin registers it."""
        return vars(self)["owner"].registered.entries[self.group, self.name]

    @property
    def config(self) -> type[Choice]:
        return self.real.config

    @property
    def factory(self) -> Factory | str:
        return self.real.factory

    @property
    def extensions(self) -> Sequence[str]:
        return self.real.extensions


class DeferredOptions(AddedOptions):
    """Options of a plugin that may not have been imported yet."""

    def __init__(self, command: str, names: list[str], owner: DeferredPlugin, n: int) -> None:
        vars(self).update(plugin=owner.name, owner=owner, n=n, command=command, names=names)

    @property
    def config(self) -> type:
        return vars(self)["owner"].registered.added[vars(self)["n"]].config


class PluginModules(Mapping[str, Any]):
    """Plugin name -> its module, or another object with its hooks."""

    def __init__(self, loaded: Mapping[str, Any]) -> None:
        self.loaded = loaded

    def __getitem__(self, name: str) -> Any:
        found = self.loaded[name]
        return found.module if isinstance(found, DeferredPlugin) else found

    def __iter__(self) -> Iterator[str]:
        return iter(self.loaded)

    def __len__(self) -> int:
        return len(self.loaded)


def module_files(modules: Mapping[str, Any]) -> Iterator[str]:
    """The files of plugins' modules, none of which is imported; other objects have none."""
    for found in modules.loaded.values() if isinstance(modules, PluginModules) else modules.values():
        deferred = isinstance(found, DeferredPlugin)
        spec = find_spec(found.module_name) if deferred else getattr(found, "__spec__", None)
        if spec and spec.has_location:
            yield str(spec.origin)
