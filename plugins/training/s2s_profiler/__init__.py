"""train.profile: a trace of a few updates, operator by operator. No torch at import."""

from __future__ import annotations

__all__ = ["ProfileOptions", "s2s_observe", "s2s_register"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from s2s import Registry, hookimpl
from s2s.config import TrainConfig

if TYPE_CHECKING:
    from s2s import TrainerView
    from s2s_profiler.tracing import Tracing


@dataclass(kw_only=True)
class ProfileOptions(TrainConfig):
    """A trace of updates."""

    profile: bool = False
    """Write a trace of ten updates to profile.json in the run directory, for chrome://tracing or Perfetto. Until then,
    the host waits for a GPU after each."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.options(ProfileOptions)


@hookimpl
def s2s_observe(trainer: TrainerView) -> Tracing | None:
    """On the first rank, if train.profile is set."""
    if not (cast("ProfileOptions", trainer.config.train).profile and trainer.world.is_main):
        return None
    from s2s_profiler.tracing import Tracing

    return Tracing(trainer.directory / "profile.json", trainer.log.info)
