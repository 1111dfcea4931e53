"""The plugin interface: the hooks, and how plugins are found.

What a configuration chooses by name is registered; what any plugin may observe is a hook.
"""

from __future__ import annotations

__all__ = ["Hooks", "Plugins", "TrainerView", "hookimpl", "load_plugins"]

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import pluggy

from s2s.backend.providers import provide
from s2s.errors import PluginError, did_you_mean
from s2s.registry import Registry

if TYPE_CHECKING:
    from types import ModuleType

    from s2s.config import Config, GenerateConfig
    from s2s.model import Seq2Seq
    from s2s.task import Task, Vocab

GROUP = "s2s"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


class TrainerView(Protocol):
    """What hooks may use of the trainer that calls them; `s2s.training.trainer.Trainer` has the types."""

    config: Config
    directory: Path
    """Of the run"""
    world: Any
    """Ranks: `rank`, `size`, `is_main`, and the collectives"""
    state: Any
    """`step`, `epoch`, and the rest of what a checkpoint keeps of the loop"""
    train_step: Any
    """`model`, `vocab`, `optimizer`, `parameters`"""
    corpora: Any
    """Encoded training corpora, each with its weight"""
    validation: Any
    checkpoints: Any
    """`folder`"""
    log: Any


class Hooks:
    """Every hook that a plugin may implement."""

    @hookspec
    def s2s_register(self, registry: Registry) -> None:
        """Add architectures, tasks, objectives, optimizers, schedules, searches, metrics, recipes, corpora, presets."""

    @hookspec
    def s2s_operators(self) -> str | None:
        """Implement operators of `s2s.backend`, when one is first called; says in a few words which, or why none."""

    @hookspec(firstresult=True)
    def s2s_run_name(self, composed: Any) -> str | None:
        """The name, under runs/, of a run to which its user gives none; `composed` is a `ComposedConfig[Config]`."""

    @hookspec(firstresult=True)
    def s2s_configure(self, composed: Any, plugins: Plugins, world: Any) -> Any:
        """Complete a configuration before the run begins: another `ComposedConfig[Config]`, or None.

        Called on every process of `world`; `world` is None where the values are only shown, by --print-config.
        """

    @hookspec(firstresult=True)
    def s2s_launch(self, config: Config, arguments: Sequence[str]) -> int | None:
        """Train in other processes, each given `arguments`; the exit code. None: train in this one."""

    @hookspec(firstresult=True)
    def s2s_build_model(self, config: Config, vocab: Vocab, registry: Registry) -> Seq2Seq | None:
        """Build the model; wrappers may freeze, compile or adapt what comes out."""

    @hookspec(firstresult=True)
    def s2s_load_models(self, config: GenerateConfig, plugins: Plugins, device: Any) -> Any:
        """Load several models of s2s-generate as one, `s2s.generation.Models`; None leaves a single run to the core."""

    @hookspec
    def s2s_prepare_model(
        self,
        model: Seq2Seq,
        config: Config,
        task: Task,
        corpora: Sequence[Any],
        directory: Path,
        world: Any,
        plugins: Plugins,
    ) -> Mapping[str, Sequence[str]] | None:
        """Check a new model, set or freeze weights, on every rank; gives headings and lines for the first screen."""

    @hookspec
    def s2s_fit_batch(self, config: Config, train_step: Any, corpora: Sequence[Any], directory: Path) -> Iterable[str]:
        """Replace train.tokens=auto and train.micro_tokens=auto by numbers, on every rank; lines for the first screen.

        `train_step` is a `s2s.training.TrainStep` before its first update, `corpora` those of training.
        """
        return ()

    @hookspec
    def s2s_first_screen(self, trainer: TrainerView, seconds: float | None) -> Iterable[tuple[str, str]]:
        """Lines for the first screen, each under a heading, which may be "warning".

        seconds: of an update, measured, in a dry run; else None.
        """
        return ()

    @hookspec
    def s2s_train_start(self, trainer: TrainerView) -> None:
        """Called once, when all is built and a checkpoint, if any, is loaded."""

    @hookspec
    def s2s_step_end(self, trainer: TrainerView, record: Mapping[str, Any]) -> None:
        """Called after every update with what the log gets of it."""

    @hookspec
    def s2s_validation_end(self, trainer: TrainerView, record: Mapping[str, Any]) -> None:
        """Called after every validation with its scores."""

    @hookspec
    def s2s_checkpoint_saved(self, trainer: TrainerView, path: Path) -> None:
        """Called when a checkpoint is complete and verified on disk."""

    @hookspec
    def s2s_train_end(self, trainer: TrainerView, record: Mapping[str, Any]) -> None:
        """Called once, after the last update, with the summary."""


class _Core:
    """What happens when no plugin does better."""

    @hookimpl(trylast=True)
    def s2s_run_name(self, composed: Any) -> str:
        """<task>-<arch>, as they were named."""
        return f"{composed.chosen['task']}-{composed.chosen['arch']}"

    @hookimpl(trylast=True)
    def s2s_build_model(self, config: Config, vocab: Vocab, registry: Registry) -> Seq2Seq:
        return registry.get("arch", config.arch.name).build(config.arch, vocab)


@dataclass(frozen=True)
class Plugins:
    """What `load_plugins` found: the hooks to call and the names to choose from."""

    hook: Any
    registry: Registry
    loaded: Mapping[str, str]
    """Plugin name -> distribution and version, or the file it came from."""


def load_plugins(local: Sequence[str] = ()) -> Plugins:
    """Load shipped plugins, then installed ones, each in the order of their names, `local` ones as given.

    A broken installed plugin is kept in `registry.broken`; a broken local one, which the user has just asked
    for, is an error.
    """
    manager, registry = pluggy.PluginManager(GROUP), Registry()
    manager.add_hookspecs(Hooks)
    manager.register(_Core(), name="core")
    registry.presets_in(_configs())
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
    provide(lambda: manager.hook.s2s_operators())
    return Plugins(manager.hook, registry, loaded)


def _register(
    manager: pluggy.PluginManager, registry: Registry, name: str, origin: str, load: Callable[[], Any]
) -> None:
    """All or nothing: a plugin that fails half-way leaves no names and no hooks behind."""
    if manager.has_plugin(name):
        raise PluginError(f"plugin '{name}' is already there, from {registry.packages[name]}")
    plugin = load()
    if manager.is_registered(plugin):
        raise PluginError(f"this is plugin '{manager.get_name(plugin)}', which is already there")
    before = dict(registry.entries), dict(registry.presets), dict(registry.groups)
    registry.plugin, registry.packages[name] = name, origin
    try:
        _refuse_misspelt_hooks(name, plugin)
        manager.register(plugin, name=name)
        manager.check_pending()
        if hasattr(plugin, "s2s_register"):
            plugin.s2s_register(registry)
    except BaseException:
        registry.entries, registry.presets, registry.groups = before
        if manager.has_plugin(name):
            manager.unregister(name=name)
        raise


def _reason(error: BaseException) -> str:
    kind = "" if isinstance(error, PluginError) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())


def _place(error: BaseException, name: str) -> str:
    """Where in the user's own file it happened, for want of a traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).stem == _stem(name)]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _stem(name: str) -> str:
    return Path(name).stem if name.endswith(".py") else name.rpartition(".")[2]


def _refuse_misspelt_hooks(name: str, plugin: Any) -> None:
    """pluggy's check_pending sees only marked functions; a forgotten @hookimpl is as silent, and as wrong."""
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
    only_shipped = os.environ.get("S2S_NO_PLUGINS", "") not in ("", "0")
    points = dict.fromkeys(entry_points(group=GROUP))
    # A distribution parses its metadata whenever it is asked for its name: 0.1 s for the plugins of s2s alone.
    names = {dist: dist.name if dist else "" for dist in {point.dist for point in points}}
    origins = {dist: f"{name} {dist.version}" for dist, name in names.items() if dist}
    found = [(names[p.dist] == "s2s-toolkit", p, origins[p.dist] if p.dist else p.value) for p in points]
    for is_shipped, point, origin in sorted(found, key=lambda f: (not f[0], f[1].name, f[2])):
        if point.name in blocked or (only_shipped and not is_shipped):
            registry.blocked.append(point.name)
        else:
            yield point, origin


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
