"""A local plugin that writes down every hook it hears, and spoils gradients where SPOIL says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.plugin import hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.trainer import Trainer


def tell(hook: str, **what: Any) -> None:
    """One line for the test."""
    if "WATCH" in os.environ:
        with Path(os.environ["WATCH"]).open("a") as file:
            file.write(json.dumps({"hook": hook, **what}) + "\n")


@hookimpl
def s2s_train_start(trainer: Trainer) -> None:
    tell("train_start", step=trainer.progress.step)
    spoilt = [int(step) for step in os.environ.get("SPOIL", "").split()]
    weight = trainer.updater.parameters[0]
    weight.register_hook(lambda g: g * float("nan") if trainer.progress.step in spoilt else None)


@hookimpl
def s2s_step_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    weights = [p.detach().double().sum().item() for p in trainer.updater.parameters]
    tell("step_end", step=record["step"], weights=sum(weights))


@hookimpl
def s2s_validation_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    tell("validation_end", step=record["step"], nll=record["nll"])


@hookimpl
def s2s_checkpoint_saved(trainer: Trainer, path: Path) -> None:
    tell("checkpoint_saved", step=trainer.progress.step, name=path.name)


@hookimpl
def s2s_train_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    tell("train_end", step=record["steps"])
