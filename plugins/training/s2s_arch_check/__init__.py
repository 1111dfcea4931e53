"""train.check: a new model is tried on two pairs of the corpus before the first update. No torch at import."""

from __future__ import annotations

__all__ = ["CheckOptions", "s2s_prepare_model", "s2s_register"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from s2s import Registry, hookimpl
from s2s.config import Mark, TrainConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Seq2Seq, Task
    from s2s.config import Config
    from s2s.data import MappedCorpus
    from s2s.distributed import World


@dataclass(kw_only=True)
class CheckOptions(TrainConfig):
    """A check of the architecture."""

    check: bool = field(default=True, metadata=Mark.NEUTRAL)
    """Run a tiny batch through the model before the first update, to find an architecture that breaks its contract."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(CheckOptions)


@hookimpl(tryfirst=True)
def s2s_prepare_model(
    model: Seq2Seq, config: Config, task: Task, corpora: Sequence[MappedCorpus], world: World
) -> None:
    """Raise PluginError, before the initial weights are replaced, if the architecture breaks its contract."""
    from s2s_arch_check.check import check_model

    if cast("CheckOptions", config.train).check:
        check_model(model, task.vocab, corpora, config.arch.name, world.device)
