"""What a checkpoint has beside weights and optimizer: the progress of the run, and states of observers."""

from __future__ import annotations

__all__ = ["TrainerState", "load_states", "observer_states"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from s2s.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from s2s.observer import Observer


@dataclass
class TrainerState:
    """The progress of a run: the part of a checkpoint that is neither weights nor optimizer state."""

    step: int = 0
    """Updates done"""
    epoch: int = 0
    batch: int = 0
    """Next batch of the epoch; with `epoch`, the whole state of the data loader"""
    n_tokens: int = 0
    """Target tokens trained on"""
    n_bad: int = 0
    """Consecutive updates that were skipped because the loss or the gradient was not finite"""
    seconds: float = 0.0
    """Time spent in updates"""
    valid_step: int = 0
    """Step of the newest validation"""
    n_stale: int = 0
    """Validations since the best one"""
    best: list[tuple[float, int]] = field(default_factory=list)
    """(criterion, step) of the best validations, best first; a larger criterion is better"""
    best_metric: str = "nll"
    """valid.best when `best` was recorded"""
    best_basis: str = ""
    """`Validation.basis` then; empty in a checkpoint of an earlier version"""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> TrainerState:
        """The state of a checkpoint; raises TypeError or ValueError if no run can have it."""
        state = cls(**saved)
        state.best = [(float(criterion), step) for criterion, step in state.best]
        counts = [state.step, state.epoch, state.batch, state.n_tokens, state.n_bad, state.valid_step, state.n_stale]
        for count in [*counts, *(step for _, step in state.best)]:
            if type(count) is not int or not 0 <= count < 1 << 53:
                raise ValueError(f"trainer: {str(count)[:60]!r} is no count")
        if not (type(state.seconds) in (int, float) and 0 <= state.seconds < float("inf")):
            raise ValueError(f"trainer.seconds: {str(state.seconds)[:60]!r}")
        for name in (state.best_metric, state.best_basis):
            if type(name) is not str:
                raise TypeError(f"trainer.best_metric or best_basis: {str(name)[:60]!r}")
        return state

    def record_validation(self, criterion: float, n_best: int) -> bool:
        """Add a validation, keeping the `n_best` best; returns whether it is better than all before."""
        better = not self.best or criterion > self.best[0][0]
        self.valid_step = self.step
        self.n_stale = 0 if better else self.n_stale + 1
        self.best = sorted([*self.best, (criterion, self.step)], key=lambda b: (-b[0], b[1]))[:n_best]
        return better

    def monitor(self, metric: str, basis: str) -> str:
        """Rank validations by `metric`, measured on `basis`, from now on; returns why the ranking so far is discarded.

        The reason is "" if it is kept, or if there was none.
        """
        changed = ""
        if metric != self.best_metric:
            changed = f"valid.best was {self.best_metric} and is {metric}"
        elif self.best_basis not in ("", basis):
            changed = "the development set has changed" + (", or how it is decoded" if metric != "nll" else "")
        discarded = changed if self.best else ""
        if changed:
            self.best, self.n_stale = [], 0
        self.best_metric, self.best_basis = metric, basis
        return discarded

    def summary(self) -> dict[str, Any]:
        """What status.json and the last log line report about a finished run."""
        return {
            "steps": self.step,
            "epochs": self.epoch,
            "tokens": self.n_tokens,
            "seconds": self.seconds,
            "n_stale": self.n_stale,
            "best_step": self.best[0][1] if self.best else None,
        }


def observer_states(observers: Iterable[Observer]) -> dict[str, Mapping[str, Any]]:
    """The states of the observers that have one, by their keys; raises PluginError if two have the same key."""
    states: dict[str, Mapping[str, Any]] = {}
    for observer in observers:
        if state := observer.state_dict():
            if observer.key in states:
                raise PluginError(f"two observers keep a state as '{observer.key}': one must define another `key`")
            states[observer.key] = state
    return states


def load_states(observers: Iterable[Observer], states: Mapping[str, Mapping[str, Any]]) -> None:
    """Give each observer its state, if the checkpoint has one."""
    for observer in observers:
        if observer.key in states:
            observer.load_state_dict(states[observer.key])
