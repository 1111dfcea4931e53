"""Runs in MLflow: s2s-train … plugins=[s2s_mlflow], with MLFLOW_TRACKING_URI and the like as mlflow reads them.

A continued run is resumed there, too: its id is kept in the run's directory.
"""

from __future__ import annotations

__all__ = ["Tracker", "s2s_observe"]

from itertools import islice
from typing import TYPE_CHECKING, Any

from s2s import Observer, PluginError, hookimpl
from s2s.compose import flatten
from s2s.io import write_file
from s2s.log import scalars

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import TrainerView

RUN_ID = "mlflow_run_id"
"""The file in the run's directory that holds the id"""
AT_ONCE, LONGEST = 100, 500
"""Parameters per request, and characters per value, that every server version accepts"""


class Tracker(Observer):
    """An MLflow run, new or resumed."""

    def __init__(self, trainer: TrainerView, mlflow: Any) -> None:
        self.log, self.state, self.mlflow = trainer.log, trainer.state, mlflow
        kept = trainer.directory / RUN_ID
        if trainer.state.step and kept.is_file():
            mlflow.start_run(run_id=kept.read_text(encoding="utf-8").strip())
            return
        run = mlflow.start_run(run_name=trainer.directory.name)
        write_file(kept, run.info.run_id + "\n")
        parameters = iter([(key, str(value)[:LONGEST]) for key, value in flatten(trainer.config).items()])
        while some := dict(islice(parameters, AT_ONCE)):
            mlflow.log_params(some)

    def is_due(self, step: int) -> bool:
        """With the lines of the log."""
        return self.log.is_due(step)

    def updated(self, record: Mapping[str, Any]) -> None:
        """Every log.every updates, and the last."""
        if self.log.is_due(record["step"]):
            self.mlflow.log_metrics(scalars(record, "train/"), step=record["step"])

    def validated(self, record: Mapping[str, Any]) -> None:
        """Loss and scores."""
        self.mlflow.log_metrics(scalars(record, "valid/"), step=record["step"])

    def finished(self, summary: Mapping[str, Any]) -> None:
        """The summary."""
        self.mlflow.log_metrics(scalars(summary, "end/"), step=self.state.step)

    def close(self, error: BaseException | None) -> None:
        """Mark the run as finished, or as failed by an error."""
        self.mlflow.end_run("FINISHED" if error is None else "FAILED")


@hookimpl
def s2s_observe(trainer: TrainerView) -> Tracker | None:
    """On the first rank."""
    if not trainer.world.is_main:
        return None
    try:
        import mlflow
    except ImportError:
        raise PluginError("plugins=[s2s_mlflow] needs mlflow: pip install mlflow-skinny (extra mlflow)") from None
    return Tracker(trainer, mlflow)
