"""The hooks: what any plugin may observe, answer or wrap."""

from __future__ import annotations

__all__ = ["GROUP", "CoreHooks", "Hooks", "Observer", "Plugins", "TrainerView", "hookimpl"]

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from s2s.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

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


class Observer:
    """Follows one run with a state of its own; made by `s2s_observe`, and overrides what it wants to know."""

    def update(self, record: Mapping[str, Any]) -> None:
        """After every update, with what the log gets of it."""

    def validated(self, record: Mapping[str, Any]) -> None:
        """After every validation, with its scores."""

    def close(self) -> None:
        """When training ends, be it by an error."""


class Hooks:
    """Every hook that a plugin may implement."""

    @hookspec
    def s2s_register(self, registry: Registry) -> None:
        """Add architectures, tasks, objectives, optimizers, schedules, searches, metrics, recipes, corpora, presets."""

    @hookspec
    def s2s_operators(self) -> str | None:
        """Implement operators of `s2s.backend`, when one is first called; says in a few words which, or why none."""

    @hookspec(firstresult=True)
    def s2s_help(self, schema: type, topics: Sequence[str], flags: Mapping[str, str], plugins: Plugins) -> str | None:
        """What a command prints for --help: about itself, or about groups, sections, options and choices."""

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
    def s2s_join(self, device: str, timeout: Any) -> Any:
        """Join the other processes of this training: an `s2s.distributed.World`; None: there are none."""

    @hookspec(firstresult=True)
    def s2s_build_model(self, config: Config, vocab: Vocab, registry: Registry) -> Seq2Seq | None:
        """Build the model; wrappers may freeze, compile or adapt what comes out."""

    @hookspec(firstresult=True)
    def s2s_configure_generation(self, config: GenerateConfig, device: Any) -> GenerateConfig | None:
        """Complete the options of s2s-generate before models are loaded; None: as they are."""

    @hookspec(firstresult=True)
    def s2s_run_search(self, search: Callable[..., Any], sentences: Sequence[Any], config: GenerateConfig) -> Any:
        """Search buffered sentences elsewhere, such as in other processes; None: here.

        `search` gives results for some of the `s2s.decoding.SourceSentence`s; the hook for all, as it gives them.
        """

    @hookspec(firstresult=True)
    def s2s_load_models(self, config: GenerateConfig, plugins: Plugins, device: Any) -> Any:
        """Load several models of s2s-generate as one, `s2s.generation.Models`; None leaves a single run to the core."""

    @hookspec
    def s2s_output_constraints(self, config: GenerateConfig, task: Task) -> Sequence[Any]:
        """Constraints on every output that options ask for, each an `s2s.decoding.FixedWidthConstraint`."""
        return ()

    @hookspec(firstresult=True)
    def s2s_sentence_constraint(self, task: Task, given: Any) -> Any:
        """What the prefix and phrases of an `s2s.generation.Input` mean: an `s2s.decoding.SentenceConstraint`."""

    @hookspec
    def s2s_finish_outputs(
        self, config: GenerateConfig, task: Task, model: Seq2Seq, device: Any, plugins: Plugins
    ) -> Any:
        """What is done with outputs before they are written, an `s2s.generation.OutputStage`; None: nothing."""

    @hookspec(firstresult=True)
    def s2s_open_output(self, config: GenerateConfig, is_file: bool) -> Any:
        """Where s2s-generate writes, an `s2s.generation.OutputStream`; None: standard output, or `output` as it is.

        is_file: whether `output` is neither standard output nor a pipe or device.
        """

    @hookspec(firstresult=True)
    def s2s_lock(self, path: Path) -> Any:
        """Lock a run whose file system has no locks: something to `release`; CheckpointError if another has it."""

    @hookspec
    def s2s_environment(self, plugins: Plugins, world: Any) -> Mapping[str, Any]:
        """Facts on which the results of a run depend, for its env.json; called on rank 0 whenever it starts."""
        return {}

    @hookspec
    def s2s_environment_changes(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
        """Warnings for a run that continues where these facts were others."""
        return ()

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
        """Replace auto in train.tokens, train.micro_tokens, train.precision on every rank; lines for the first screen.

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
    def s2s_observe(self, trainer: TrainerView) -> Observer | None:
        """Follow the updates and validations that come; called after `s2s_train_start`."""

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


class CoreHooks:
    """What happens when no plugin does better."""

    @hookimpl(trylast=True)
    def s2s_help(self, schema: type, flags: Mapping[str, str]) -> str:
        """The docstring of the configuration, and the flags."""
        return "\n".join([schema.__doc__ or "", *(f"  {flag:14}  {text}" for flag, text in flags.items())])

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
