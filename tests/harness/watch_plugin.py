"""A local plugin that records what it observes (WATCH) and injects faults: it corrupts gradients (SPOIL="3 4": of
these updates), or sends a signal to its own process (SIGNAL="TERM validating 6": while it validates after update 6;
HANG sleeps), only in rank SIGNAL_RANK if that is given, and only once over all starts with ONCE=file. MEMORY=30: the
backward pass of more than 30 source positions runs out of memory when most of it is done. HELD=file: what the process
holds between updates, in bytes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from harness.held_memory import held_bytes
from s2s.plugin import Observer, hookimpl

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from torch import Tensor

    from s2s.model import Seq2Seq
    from s2s.training.trainer import Trainer


def tell(hook: str, **what: Any) -> None:
    """One line for the test."""
    if "WATCH" in os.environ:
        with Path(os.environ["WATCH"]).open("a") as file:
            file.write(json.dumps({"hook": hook, **what}) + "\n")


def send(where: str, step: int) -> None:
    """The signal, if this is the place for it."""
    name, *place = os.environ.get("SIGNAL", "none").split()
    rank = os.environ.get("SIGNAL_RANK", os.environ.get("RANK"))
    if place != [where, str(step)] or rank != os.environ.get("RANK") or not first_time():
        return
    if name == "HANG":
        time.sleep(600)
    else:
        os.kill(os.getpid(), signal.Signals[f"SIG{name}"])


def first_time() -> bool:
    """Whether this is the first call, where only the first is to go on: ONCE names a file that remembers."""
    if "ONCE" not in os.environ:
        return True
    try:
        Path(os.environ["ONCE"]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@hookimpl(wrapper=True)
def s2s_build_model() -> Generator[None, Seq2Seq, Seq2Seq]:
    send("building", 0)
    return (yield)


@hookimpl
def s2s_observe(trainer: Trainer) -> Watch:
    tell("observe", step=trainer.state.step)
    send("starting", trainer.state.step)
    spoilt = [int(step) for step in os.environ.get("SPOIL", "").split()]
    weight = trainer.train_step.parameters[0]
    weight.register_hook(lambda g: g * float("nan") if trainer.state.step in spoilt else None)

    limit, places = int(os.environ.get("MEMORY", 0)), [0]

    def allocate(_gradient: Tensor) -> None:
        if limit and places[0] > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")

    weight.register_hook(allocate)

    def before_forward(model: Seq2Seq, arguments: Any) -> None:
        places[0] = arguments[0].numel()
        if not model.training:
            averaged = (trainer.checkpoints.folder / "average").exists()
            send("averaged" if averaged else "validating", trainer.state.step)

    trainer.train_step.model.register_forward_pre_hook(before_forward)
    return Watch(trainer)


class Watch(Observer):
    """Writes down what happens."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def updated(self, record: Mapping[str, Any]) -> None:
        weights = [p.detach().double().sum().item() for p in self.trainer.train_step.parameters]
        tell("update", step=record["step"], weights=sum(weights))
        send("updating", record["step"])
        if "HELD" in os.environ:
            step = self.trainer.train_step
            Path(os.environ["HELD"]).write_text(str(held_bytes(step.parameters, step.optimizer)))

    def validated(self, record: Mapping[str, Any]) -> None:
        tell("validated", step=record["step"], nll=record["nll"])
        send("validated", record["step"])

    def saved(self, path: Path, seconds: float) -> None:
        step = int(path.name.removeprefix("step-"))  # the run may be further on
        tell("saved", step=step, name=path.name, seconds=seconds)
        send("saved", step)

    def finished(self, summary: Mapping[str, Any]) -> None:
        tell("finished", step=summary["steps"])
        send("finishing", summary["steps"])

    def close(self, error: BaseException | None) -> None:
        tell("close", error=error and type(error).__name__)
