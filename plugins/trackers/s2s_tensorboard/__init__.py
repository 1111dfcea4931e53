"""log.tensorboard: the numbers of a run as TensorBoard's event files, where it is installed. No torch at import."""

from __future__ import annotations

__all__ = ["Plots", "s2s_observe"]

from typing import TYPE_CHECKING, Any

from s2s import Observer, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import TrainerView


class Plots(Observer):
    """Every number of an update or a validation, as `train/name` or `valid/name`."""

    def __init__(self, trainer: TrainerView, writer: Any) -> None:
        self.log, self.writer = trainer.log, writer
        self.n_tokens, self.seconds = 0, 0.0
        """Since the last update that was plotted"""

    def is_due(self, step: int) -> bool:
        """With the lines of the log."""
        return self.log.is_due(step)

    def updated(self, record: Mapping[str, Any]) -> None:
        """Every log.every updates, and the last."""
        self.n_tokens += record["tokens"]
        self.seconds += record["seconds"] + record["wait"]
        if self.log.is_due(record["step"]):
            self._plot("train", {**record, "tokens_per_second": self.n_tokens / max(self.seconds, 1e-9)})
            self.n_tokens, self.seconds = 0, 0.0

    def validated(self, record: Mapping[str, Any]) -> None:
        """Loss and scores."""
        self._plot("valid", record)

    def close(self, error: BaseException | None) -> None:
        """Write the rest."""
        with self.log.tolerating_full_disk():
            self.writer.close()

    def _plot(self, group: str, record: Mapping[str, Any]) -> None:
        with self.log.tolerating_full_disk():
            for name, value in record.items():
                if isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
                    self.writer.add_scalar(f"{group}/{name}", value, record["step"])


@hookimpl
def s2s_observe(trainer: TrainerView) -> Plots | None:
    """On the first rank, where TensorBoard is installed; a continued run replaces updates after its checkpoint."""
    if not (trainer.config.log.tensorboard and trainer.world.is_main):
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return Plots(trainer, SummaryWriter(str(trainer.directory / "tensorboard"), purge_step=trainer.state.step + 1))
