"""Runs in MLflow: s2s-train … plugins=[s2s_mlflow], with MLFLOW_TRACKING_URI and its like as mlflow reads them.

A run that continues goes on there, too: its id is kept in the run's directory.
"""

from __future__ import annotations

__all__ = ["s2s_step_end", "s2s_train_end", "s2s_train_start", "s2s_validation_end"]

from itertools import islice
from typing import TYPE_CHECKING, Any

from s2s import PluginError, hookimpl
from s2s.compose import flatten
from s2s.io import write_file
from s2s.log import scalars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s.training import Trainer

RUN_ID = "mlflow_run_id"
"""The file of the run's directory"""
AT_ONCE, LONGEST = 100, 500
"""Parameters in one request, and characters of a value, that every version of a server takes"""


@hookimpl
def s2s_train_start(trainer: Trainer) -> None:
    """Begin the run there, or go on with it."""
    if not trainer.world.is_main:
        return
    mlflow, kept = _mlflow(), trainer.directory / RUN_ID
    if trainer.state.step and kept.is_file():
        mlflow.start_run(run_id=kept.read_text(encoding="utf-8").strip())
        return
    run = mlflow.start_run(run_name=trainer.directory.name)
    write_file(kept, run.info.run_id + "\n")
    parameters = iter([(key, str(value)[:LONGEST]) for key, value in flatten(trainer.config).items()])
    while some := dict(islice(parameters, AT_ONCE)):
        mlflow.log_params(some)


@hookimpl
def s2s_step_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    """Every log.every updates."""
    every = trainer.config.log.every
    if trainer.world.is_main and every and record["step"] % every == 0:
        _mlflow().log_metrics(scalars("train", record), step=record["step"])


@hookimpl
def s2s_validation_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    """Loss and scores."""
    if trainer.world.is_main:
        _mlflow().log_metrics(scalars("valid", record), step=record["step"])


@hookimpl
def s2s_train_end(trainer: Trainer, record: Mapping[str, Any]) -> None:
    """The summary."""
    if trainer.world.is_main:
        mlflow = _mlflow()
        mlflow.log_metrics(scalars("end", record), step=trainer.state.step)
        mlflow.end_run()


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError:
        raise PluginError("plugins=[s2s_mlflow] needs mlflow: pip install 's2s-toolkit[mlflow]'") from None
    return mlflow
