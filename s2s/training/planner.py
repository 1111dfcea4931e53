"""What a configuration may leave open until a run begins, and who decides it: a planner, which a plugin provides."""

from __future__ import annotations

__all__ = ["Planner", "planner_of"]

from dataclasses import dataclass
from typing import TYPE_CHECKING

from s2s.errors import ConfigError
from s2s.hooks import Plugins
from s2s.training.batch_plan import BatchPlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.config import Config, Precision
    from s2s.data import MappedCorpus
    from s2s.distributed import World
    from s2s.training.train_step import TrainStep
    from s2s.training.trainer import Trainer


@dataclass(frozen=True)
class Planner:
    """Decides what the user has left open, stage by stage in the order of these methods.

    This one decides nothing. It is used if no plugin provides a planner, and is the base class of those that plugins
    provide. From `configure` on, every process calls each method, and must get the same result. `directory` is that of
    the run, where a planner keeps what must stay the same when the run is resumed; `corpora` are for training.
    """

    plugins: Plugins

    def run_name(self, composed: ComposedConfig[Config]) -> str:
        """The name, under runs/, of a run that the user has not named."""
        return f"{composed.chosen['task']}-{composed.chosen['arch']}"

    def configure(self, composed: ComposedConfig[Config], world: World | None) -> ComposedConfig[Config]:
        """Complete a configuration before the run begins; its `notes` are shown, its `files` kept with the run.

        world: None if the values are only shown, by --print-config, which must not take long.
        """
        recipe = composed.config.recipe.name
        if recipe not in ("", "none"):
            raise self._undecided("recipe", recipe, "leave it out")
        return composed

    def precision(
        self, train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path
    ) -> tuple[Precision, str]:
        """What train.precision=auto means, and a line for the first screen; `train_step` has made no update yet."""
        raise self._undecided("train.precision", "auto", "give fp32 or bf16")

    def batch(
        self, config: Config, train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path
    ) -> BatchPlan:
        """Numbers for train.tokens and train.micro_tokens, either of which may be auto; `train_step` as before.

        `train_step.trial(pairs, plan)` computes a gradient and discards it.
        """
        if config.train.tokens == "auto":
            raise self._undecided("train.tokens", "auto", "give a number")
        return BatchPlan(config.train.n_tokens, config.train.n_micro_tokens)

    def facts(self, trainer: Trainer, seconds: float | None = None) -> Iterable[tuple[str, str]]:
        """Topics and facts for the first screen; one whose topic is "warning" is shown as a warning.

        seconds: duration of an update, measured in a dry run; else None.
        """
        return ()

    def _undecided(self, key: str, value: str, advice: str) -> ConfigError:
        return ConfigError(
            f"{key}={value}: no loaded plugin chooses a value; {advice}.{self.plugins.registry.absent_hint()}"
        )


def planner_of(config: Config, plugins: Plugins) -> Planner:
    """The planner that a plugin provides for a run of this configuration, or the core's."""
    planner: Planner | None = plugins.hook.s2s_plan(config=config, plugins=plugins)
    return planner or Planner(plugins)
