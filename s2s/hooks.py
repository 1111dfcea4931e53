"""The hooks: what any plugin may observe, provide or wrap."""

from __future__ import annotations

__all__ = ["GROUP", "CoreHooks", "Hooks", "Plugins", "hookimpl"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pluggy

from s2s.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from s2s.compose import Setting
    from s2s.config import Config, GenerateConfig
    from s2s.data import MappedCorpus
    from s2s.distributed import World
    from s2s.generation import OutputStage
    from s2s.model import Seq2Seq
    from s2s.observer import Observer, TrainerView
    from s2s.task import Task, Vocab
    from s2s.training.planner import Planner

GROUP = "s2s"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


class Hooks:
    """Every hook that a plugin may implement.

    A `config` has the options that all loaded plugins add to its command: an implementation may declare it as its own
    dataclass of options.
    """

    @hookspec
    def s2s_register(self, registry: Registry) -> None:
        """Add entries of groups, such as architectures, searches and metrics, presets, and options of commands."""

    @hookspec
    def s2s_settings(self, settings: Sequence[Setting], schema: type, plugins: Plugins) -> Sequence[Setting] | None:
        """What follows from the settings of files and the command line, such as the options of another run that one
        names; weaker than these, stronger than presets of groups. schema: the options of the command."""

    @hookspec
    def s2s_operators(self) -> str | None:
        """Implement operators of `s2s.backend`, when one is first called; returns in a few words which, or why none."""

    @hookspec(firstresult=True)
    def s2s_plan(self, config: Config, plugins: Plugins) -> Planner | None:
        """The planner of a run; None: the core's."""

    @hookspec(firstresult=True)
    def s2s_build_model(self, config: Config, vocab: Vocab, registry: Registry) -> Seq2Seq | None:
        """Build the model; wrappers may freeze, compile or adapt the result."""

    @hookspec
    def s2s_finish_outputs(
        self,
        config: GenerateConfig,
        task: Task,
        model: Seq2Seq,
        device: torch.device,
        plugins: Plugins,
        load_model: Callable[[], Seq2Seq],
    ) -> OutputStage | None:
        """What is done with outputs before they are written; None: nothing.

        load_model: for a hook that does not always need the model, which is loaded by then at the latest.
        """

    @hookspec
    def s2s_prepare_model(
        self,
        model: Seq2Seq,
        config: Config,
        task: Task,
        corpora: Sequence[MappedCorpus],
        directory: Path,
        world: World,
        plugins: Plugins,
    ) -> Sequence[tuple[str, str]] | None:
        """Check a new model, set or freeze weights, on every rank; returns topics and facts for the first screen."""

    @hookspec
    def s2s_observe(self, trainer: TrainerView) -> Observer | None:
        """Follow a run; called in every process, once everything is built and a checkpoint, if any, is loaded."""


class CoreHooks:
    """The defaults, used if no plugin returns a result."""

    @hookimpl(trylast=True)
    def s2s_build_model(self, config: Config, vocab: Vocab, registry: Registry) -> Seq2Seq:
        return registry.get("arch", config.arch.name).build(config.arch, vocab)


@dataclass(frozen=True)
class Plugins:
    """What `load_plugins` found: the hooks to call and the names to choose from."""

    hook: Any
    """pluggy's caller of hooks: `plugins.hook.s2s_observe(trainer=…)`; the methods are those of `Hooks`"""
    registry: Registry
    loaded: Mapping[str, str]
    """Plugin name -> distribution and version, or the file it came from."""
    modules: Mapping[str, Any] = field(default_factory=dict)
    """Plugin name -> its module, or another object with its hooks"""
