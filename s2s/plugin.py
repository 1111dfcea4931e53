"""How plugins are found and loaded.

What a configuration chooses by name is registered; what any plugin may observe is a hook (`s2s.hooks`).
"""

from __future__ import annotations

__all__ = ["Hooks", "Observer", "Plugins", "TrainerView", "hookimpl", "load_plugins"]

import importlib
import importlib.util
import os
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pluggy

from s2s.backend.device_types import register_core_devices, use_devices
from s2s.backend.providers import add_provider
from s2s.deferred import DeferredPlugin, PluginModules, Record
from s2s.errors import PluginError, did_you_mean
from s2s.hooks import GROUP, CoreHooks, Hooks, Plugins, hookimpl
from s2s.observer import Observer, TrainerView
from s2s.plugin_index import PluginIndex, Point, find_points
from s2s.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence


def load_plugins(local: Sequence[str] = ()) -> Plugins:
    """Load shipped plugins, then installed ones, each in the order of their names, `local` ones as given.

    Shipped ones that are in the index (`s2s.plugin_index`) are imported when they are first used.

    A broken installed plugin is recorded in `registry.broken`; a broken local one, which the user has just
    named, is an error. So is a `local` one with S2S_NO_PLUGINS=1, and an S2S_BLOCK_PLUGINS that names no plugin.
    """
    if local and _only_shipped():
        named = f"plugins=[{','.join(local)}]"
        raise PluginError(
            f"{named}: S2S_NO_PLUGINS=1 leaves out all plugins that s2s does not ship; take one of them out"
        )
    loader = _Loader()
    loader.load_installed()
    for name in dict.fromkeys(local):
        try:
            loader.load(name, f"plugins=[{name}]", partial(_import_local, name))
        except (Exception, SystemExit) as error:  # the user's own file may raise anything
            raise PluginError(f"plugins=[{name}]: {_reason(error)}{_place(error, name)}") from error
    hook, registry = loader.manager.hook, loader.registry
    add_provider(lambda: hook.s2s_operators())
    use_devices(registry)
    origins = {name: registry.packages[name] for name in loader.loaded}
    return Plugins(hook, registry, origins, PluginModules(loader.loaded))


class _Loader:
    """Plugins, their hooks and what they register, while they are loaded."""

    def __init__(self) -> None:
        self.manager, self.registry = pluggy.PluginManager(GROUP), Registry()
        self.manager.add_hookspecs(Hooks)
        self.manager.register(CoreHooks(), name="core")
        self.registry.presets_in(_configs())
        register_core_devices(self.registry)
        self.loaded: dict[str, Any] = {}
        """Name -> module, other object with hooks, or DeferredPlugin"""

    def load_installed(self) -> None:
        """Load what is installed, and write the index if there was none."""
        found = PluginIndex.read()
        index = found or PluginIndex(find_points(), {})
        for point in _wanted(index.points, self.registry):
            deferred, groups = index.deferred(point, self.registry), set(self.registry.groups)
            try:
                self.load(point.name, point.origin, lambda: deferred or point.load())  # noqa: B023  called at once
            except (Exception, SystemExit) as error:  # a third-party package may raise anything
                name = point.name if point.name not in self.loaded else f"{point.name} of {point.origin}"
                self.registry.broken[name] = f"{_reason(error)} (from {point.origin})"
                continue
            if found is None and point.is_shipped and (record := self._record(point.name, groups)):
                index.records[point.name] = record
        if found is None and all(point.name in self.loaded for point in index.points if point.is_shipped):
            index.write()

    def load(self, name: str, origin: str, load: Callable[[], Any]) -> None:
        """All or nothing: a plugin that fails half-way leaves no names and no hooks behind."""
        registry, manager = self.registry, self.manager
        if name in self.loaded:
            raise PluginError(f"plugin '{name}' is already there, from {registry.packages[name]}")
        plugin = load()
        if not isinstance(plugin, DeferredPlugin):
            self._check_new(plugin)
        before = dict(registry.entries), dict(registry.presets), dict(registry.groups), list(registry.added)
        registry.plugin, registry.packages[name] = name, origin
        try:
            if isinstance(plugin, DeferredPlugin):
                plugin.register(manager)
            else:
                _check_hook_names(name, plugin)
                manager.register(plugin, name=name)
                manager.check_pending()
                if hasattr(plugin, "s2s_register"):
                    plugin.s2s_register(registry)
        except BaseException:
            registry.entries, registry.presets, registry.groups, registry.added = before
            if manager.has_plugin(name):
                manager.unregister(name=name)
            raise
        self.loaded[name] = plugin

    def _record(self, name: str, groups: Collection[str]) -> Record | None:
        """What the plugin that was loaded last has registered beside the `groups` of those before it; None for presets,
        and for an object that is no module, which are not kept by name."""
        plugin, registry = self.loaded[name], self.registry
        if not isinstance(plugin, ModuleType) or any(one.plugin == name for one in registry.presets.values()):
            return None
        callers = [one for one in self.manager.get_hookcallers(plugin) or () if one.name != "s2s_register"]
        hooks = {one.name: impl for one in callers for impl in one.get_hookimpls() if impl.plugin is plugin}
        return Record(
            {group: contract for group, contract in registry.groups.items() if group not in groups},
            [key for key, entry in registry.entries.items() if entry.plugin == name],
            [(added.command, added.names) for added in registry.added if added.plugin == name],
            {hook: (list(impl.argnames), dict(impl.opts)) for hook, impl in hooks.items()},
        )

    def _check_new(self, plugin: Any) -> None:
        for name, there in self.loaded.items():
            if plugin is (there.imported if isinstance(there, DeferredPlugin) else there):
                raise PluginError(f"this is plugin '{name}', which is already there")


def _reason(error: BaseException) -> str:
    kind = "" if isinstance(error, PluginError) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())


def _place(error: BaseException, name: str) -> str:
    """Where in the user's own file it happened, since no traceback is shown."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).stem == _stem(name)]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _stem(name: str) -> str:
    return Path(name).stem if name.endswith(".py") else name.rpartition(".")[2]


def _check_hook_names(name: str, plugin: Any) -> None:
    """pluggy's check_pending sees only marked functions; a forgotten @hookimpl is just as silent, and as wrong."""
    for attribute in dir(plugin):
        function = getattr(plugin, attribute)
        if not attribute.startswith("s2s_") or not callable(function):
            continue
        if not hasattr(Hooks, attribute):
            known = [n for n in dir(Hooks) if n.startswith("s2s_")]
            raise PluginError(f"plugin '{name}': no hook '{attribute}'.{did_you_mean(attribute, known)}")
        if not hasattr(function, f"{GROUP}_impl"):
            raise PluginError(f"plugin '{name}': '{attribute}' lacks @s2s.hookimpl")


def _wanted(points: Sequence[Point], registry: Registry) -> Iterator[Point]:
    """Those that s2s ships first, blocked ones left out."""
    blocked = {n.strip() for n in os.environ.get("S2S_BLOCK_PLUGINS", "").split(",") if n.strip()}
    _check_known(blocked, {point.name for point in points})
    for point in sorted(points, key=lambda one: (not one.is_shipped, one.name, one.origin)):
        if point.name in blocked or (not point.is_shipped and _only_shipped()):
            registry.blocked[point.name] = point.module
        else:
            yield point


def _check_known(blocked: set[str], installed: set[str]) -> None:
    """A misspelt name would leave its plugin in use."""
    for name in sorted(blocked - installed):
        raise PluginError(f"S2S_BLOCK_PLUGINS={name}: no such plugin is installed.{did_you_mean(name, installed)}")


def _only_shipped() -> bool:
    return os.environ.get("S2S_NO_PLUGINS", "") not in ("", "0")


def _import_local(name: str) -> ModuleType:
    """A module by its name, looked up from the working directory, or by its path if it ends in .py."""
    if not name.endswith(".py"):
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    path = Path(name)
    if not path.is_file():
        raise PluginError(f"no file {path}")
    # Under a name of its own: a user's json.py must not replace the standard module.
    spec = importlib.util.spec_from_file_location(f"s2s_local_{path.stem}_{crc32(bytes(path.resolve())):x}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # omegaconf looks types up in here
    spec.loader.exec_module(module)
    return module


def _configs() -> Path:
    """The shipped presets: beside the package in a wheel, beside its folder in an editable install."""
    inside = Path(__file__).parent / "configs"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "configs"
