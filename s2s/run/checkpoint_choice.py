"""Which checkpoint of a run is used: the first of those that an option may mean that can be read. No torch."""

from __future__ import annotations

__all__ = ["chosen_checkpoint"]

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.checkpoint.names import WORSE, step_name, steps
from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.io.json_files import read_json
from s2s.run.paths import candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)
T = TypeVar("T")


def chosen_checkpoint(
    directory: Path, name: str, read: Callable[[Path], tuple[Mapping[str, Any], Callable[[], T]]]
) -> tuple[Path, T, list[str]]:
    """The first checkpoint that `name` may mean and that can be read, what is read of it, and why others, which are
    logged, were passed over.

    read: gives the state of a checkpoint, and what else is read of it once it is chosen; either raises CheckpointError
    if that is damaged.
    """
    reasons = []
    for path in candidates(directory, name):
        try:
            state, contents = read(path)
            if name == "auto" and state.get(WORSE) is True:
                continue  # as the last lines of its training have shown
            if name == "auto":
                _check_earlier_average(path, state)
            found = contents()
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        reasons = [*_missing_best(directory, name, path), *reasons]
        for reason in reasons:
            logger.warning("checkpoint passed over: %s", reason)
        return path, found, reasons
    what = "; ".join(reasons) or "none was saved yet"
    raise CheckpointError(f"run {directory} has no valid checkpoint for checkpoint={name}: {what}")


def _check_earlier_average(path: Path, state: Mapping[str, Any]) -> None:
    """Raise CheckpointError for an average that was written before the run continued; its state has the step."""
    trainer, newest = state.get("trainer"), steps(path.parent)[-1:]
    then = trainer.get("step") if isinstance(trainer, dict) else None
    if path.name != "average" or not newest or not isinstance(then, int):
        return
    if int(newest[0].name.removeprefix("step-")) > then:
        raise CheckpointError(
            f"{path} was written after update {then:,}, and the run has continued since, up to "
            f"{newest[0].name}; to use it all the same, give checkpoint=average"
        )


def _missing_best(directory: Path, name: str, taken: Path) -> Iterator[str]:
    """Reports that the best checkpoint, which checkpoint=auto would have taken, is gone."""
    link = directory / "best"
    if name != "auto" or taken.name == "average" or link.is_dir():
        return
    target = atomic.read_link(link)
    newest = steps(directory / "checkpoints")[-1:]
    best = target.name if target else next(filter(None, map(_best_step, newest)), "")
    if best and best != taken.name:
        yield f"{link} leads nowhere; it was {best}. Taken instead: {taken}"


def _best_step(path: Path) -> str:
    """The name of the best checkpoint when `path` was saved; "" if there was none, or it cannot be read."""
    try:
        return step_name(int(read_json(path / "state.json")["trainer"]["best"][0][1]))
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return ""
