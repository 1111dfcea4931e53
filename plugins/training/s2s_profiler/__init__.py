"""train.profile: a trace of a few updates, operator by operator. No torch at import."""

from __future__ import annotations

__all__ = ["s2s_observe"]

from typing import TYPE_CHECKING

from s2s import hookimpl

if TYPE_CHECKING:
    from s2s import TrainerView
    from s2s_profiler.tracing import Tracing


@hookimpl
def s2s_observe(trainer: TrainerView) -> Tracing | None:
    """On the first rank, if train.profile is set."""
    if not (trainer.config.train.profile and trainer.world.is_main):
        return None
    from s2s_profiler.tracing import Tracing

    return Tracing(trainer.directory / "profile.json", trainer.log.info)
