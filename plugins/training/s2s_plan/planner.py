"""The planner of every run: each stage is decided in a module of its own, imported when it is reached."""

from __future__ import annotations

__all__ = ["RunPlanner"]

from dataclasses import replace
from typing import TYPE_CHECKING

from s2s.training import Planner
from s2s_plan.plan import Plan
from s2s_plan.situation import names_architecture, recipe_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s.compose import ComposedConfig
    from s2s.config import Config, Precision
    from s2s.data import MappedCorpus
    from s2s.distributed import World
    from s2s.training import BatchPlan, Trainer, TrainStep


class RunPlanner(Planner):
    """Follows a recipe and train.budget, and measures what `auto` means."""

    def run_name(self, composed: ComposedConfig[Config]) -> str:
        """<task>-<recipe> where the recipe chooses the architecture, else <task>-<arch>."""
        recipe = recipe_of(composed)
        if recipe and not names_architecture(composed):
            return f"{composed.chosen['task']}-{recipe}"
        return super().run_name(composed)

    def configure(self, composed: ComposedConfig[Config], world: World | None) -> ComposedConfig[Config]:
        """The configuration with the recipe's values and the run length that train.budget allows."""
        if world is None and not recipe_of(composed):
            return composed  # so that --print-config needs no torch
        from s2s_plan.planning import configure

        name = composed.config.run or self.run_name(composed)
        return configure(composed, self.plugins, world, name)

    def precision(
        self, train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path
    ) -> tuple[Precision, str]:
        """fp32 or bf16 on a CPU, whichever trains faster there, measured with trial updates."""
        from s2s_plan.precision import choose_precision

        return choose_precision(train_step, corpora, directory)

    def batch(
        self, config: Config, train_step: TrainStep, corpora: Sequence[MappedCorpus], directory: Path
    ) -> BatchPlan:
        """As many tokens as fit into memory, and a check that rejects micro-batches that no longer do."""
        from s2s.training import BatchPlan
        from s2s_plan.batch_size import find_batch_size
        from s2s_plan.memory import MemoryGuard, longest_pair
        from s2s_plan.micro_batch import find_micro_tokens

        guard = MemoryGuard()
        tokens, size_line = find_batch_size(train_step, guard, config.data.max_len, directory)
        config = replace(config, train=replace(config.train, tokens=tokens))
        micro_tokens, micro_line = find_micro_tokens(config, train_step, guard, longest_pair(corpora), directory)
        return BatchPlan(tokens, micro_tokens, guard.check, [line for line in (size_line, micro_line) if line])

    def facts(self, trainer: Trainer, seconds: float | None = None) -> Iterable[tuple[str, str]]:
        """Forecast of the run (in a dry run), and warnings about settings that look like mistakes."""
        from s2s_plan.forecast import forecast

        expected, config = forecast(trainer), trainer.config
        if seconds is not None:
            yield from (("dry run", line) for line in expected.describe(config, seconds))
        plan = Plan.read(trainer.directory)
        planned = plan is not None and plan.value("train.steps") == config.train.steps
        yield from (("warning", text) for text in expected.warnings(config, seconds or 0.0, planned=planned))
