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
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pluggy

from s2s.backend.device_types import register_core_devices, use_devices
from s2s.backend.providers import add_provider
from s2s.errors import PluginError, did_you_mean
from s2s.hooks import GROUP, CoreHooks, Hooks, Plugins, hookimpl
from s2s.observer import Observer, TrainerView
from s2s.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType


def load_plugins(local: Sequence[str] = ()) -> Plugins:
    """Load shipped plugins, then installed ones, each in the order of their names, `local` ones as given.

    A broken installed plugin is recorded in `registry.broken`; a broken local one, which the user has just
    named, is an error. So is a `local` one with S2S_NO_PLUGINS=1, and an S2S_BLOCK_PLUGINS that names no plugin.
    """
    if local and _only_shipped():
        named = f"plugins=[{','.join(local)}]"
        raise PluginError(
            f"{named}: S2S_NO_PLUGINS=1 leaves out all plugins that s2s does not ship; take one of them out"
        )
    manager, registry = pluggy.PluginManager(GROUP), Registry()
    manager.add_hookspecs(Hooks)
    manager.register(CoreHooks(), name="core")
    registry.presets_in(_configs())
    register_core_devices(registry)
    loaded: dict[str, str] = {}
    for point, origin in _installed(registry):
        try:
            _register(manager, registry, point.name, origin, point.load)
        except (Exception, SystemExit) as error:  # a third-party package may raise anything
            name = point.name if point.name not in loaded else f"{point.name} of {origin}"
            registry.broken[name] = f"{_reason(error)} (from {origin})"
        else:
            loaded[point.name] = origin
    for name in dict.fromkeys(local):
        try:
            _register(manager, registry, name, f"plugins=[{name}]", partial(_import_local, name))
        except (Exception, SystemExit) as error:  # so may the user's own file
            raise PluginError(f"plugins=[{name}]: {_reason(error)}{_place(error, name)}") from error
        loaded[name] = f"plugins=[{name}]"
    add_provider(lambda: manager.hook.s2s_operators())
    use_devices(registry)
    return Plugins(manager.hook, registry, loaded, {name: manager.get_plugin(name) for name in loaded})


def _register(
    manager: pluggy.PluginManager, registry: Registry, name: str, origin: str, load: Callable[[], Any]
) -> None:
    """All or nothing: a plugin that fails half-way leaves no names and no hooks behind."""
    if manager.has_plugin(name):
        raise PluginError(f"plugin '{name}' is already there, from {registry.packages[name]}")
    plugin = load()
    if manager.is_registered(plugin):
        raise PluginError(f"this is plugin '{manager.get_name(plugin)}', which is already there")
    before = dict(registry.entries), dict(registry.presets), dict(registry.groups), list(registry.added)
    registry.plugin, registry.packages[name] = name, origin
    try:
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


def _installed(registry: Registry) -> Iterator[tuple[EntryPoint, str]]:
    """Entry points with their distribution and version, those that s2s ships first, blocked ones left out."""
    blocked = {n.strip() for n in os.environ.get("S2S_BLOCK_PLUGINS", "").split(",") if n.strip()}
    points = dict.fromkeys(entry_points(group=GROUP))
    _check_known(blocked, {point.name for point in points})
    # A distribution parses its metadata on every access to its name: 0.1 s for the plugins of s2s alone.
    names = {dist: dist.name if dist else "" for dist in {point.dist for point in points}}
    origins = {dist: f"{name} {dist.version}" for dist, name in names.items() if dist}
    plugins = [(names[p.dist] == "s2s-toolkit", p, origins[p.dist] if p.dist else p.value) for p in points]
    for is_shipped, point, origin in sorted(plugins, key=lambda f: (not f[0], f[1].name, f[2])):
        if point.name in blocked or (not is_shipped and _only_shipped()):
            registry.blocked[point.name] = point.module
        else:
            yield point, origin


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
