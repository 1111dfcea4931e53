"""Signals at every point of a run: what they end, what is saved, what is reported, and that nothing is lost."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import re
import signal
import threading
import time
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.forked_children import in_child
from harness.sorting_runs import fork_training, outcome, status, train
from s2s.errors import Preempted
from s2s.training import signals
from s2s.training.signals import Stopped, StopSignal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = ["train.steps=12", "checkpoint.every=3", "valid.every=4", "train.average=3", "train.ema=0.9"]
AT_ONCE = "nothing had to be saved; the same command goes on"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    assert train(folder, *RUN) == 0
    return folder


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("building 0", AT_ONCE),
        ("starting 0", AT_ONCE),
        ("updating 5", "after update 5, saved; the same command continues"),
        ("validating 4", "after update 4, saved; the same command continues"),
        ("validated 4", "after update 5, saved; the same command continues"),
        ("saved 6", r"after update \d+, saved; the same command continues"),
        ("updating 12", "after update 12, saved; the same command continues"),
        ("validating 12", "after update 12, saved; the same command continues"),
        ("saved 12", AT_ONCE),
        ("averaged 12", "after update 12, saved; the same command continues"),
        ("finishing 12", AT_ONCE),
    ],
)
def test_a_signal_ends_the_run_where_nothing_is_lost(
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: str,
    said: str,
) -> None:
    folder = tmp_path / "stopped"
    with monkeypatch.context() as patch:
        patch.setenv("SIGNAL", f"TERM {place}")
        assert train(folder, *RUN) == 75
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("s2s-train: stopped by SIGTERM")
    assert re.search(f"{said}$", line)
    assert status(folder)["state"] == "preempted"
    assert train(folder, *RUN) == 0
    assert outcome(folder) == outcome(undisturbed)
    assert status(folder)["state"] == "done"


def test_a_signal_while_the_data_is_prepared_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("s2s.training.build.prepare", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
        assert train(tmp_path / "a", *RUN) == 130
    assert capsys.readouterr().err == f"s2s-train: stopped by SIGINT: {AT_ONCE}\n"
    assert status(tmp_path / "a")["state"] == "preempted"


def test_a_stop_that_cannot_be_saved_does_not_say_that_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from s2s.checkpoint import directory as checkpoint
    from s2s.errors import CheckpointError

    def full(*_arguments: object) -> None:
        raise CheckpointError("no space left on device")

    monkeypatch.setattr(checkpoint, "save", full)
    monkeypatch.setenv("SIGNAL", "TERM updating 2")
    assert train(tmp_path / "a", *RUN) == 2
    assert capsys.readouterr().err == "s2s-train: error: no space left on device\n"


def ended_by(block: Callable[[StopSignal], None]) -> tuple[StopSignal, Preempted]:
    """Run the block while we listen; what was heard, and how it ended."""
    stop = StopSignal()

    def listen() -> None:
        with stop.handling():
            block(stop)

    with pytest.raises(Preempted) as caught:
        listen()
    return stop, caught.value


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_work_that_can_be_left_off_is_and_the_rest_goes_on() -> None:
    done: list[object] = []

    def block(stop: StopSignal) -> None:
        with stop.deferred():
            done.append(stop.interruptible(lambda: 7))
            done.append(stop.interruptible(lambda: [send(signal.SIGUSR1), done.append("late")]))
            done.append(stop.interruptible(lambda: done.append("too late")))
            done.append("rest")

    stop, _ = ended_by(block)
    assert done == [7, None, None, "rest"]
    assert stop.error(3).exit_code == 75


def test_an_exception_that_catches_errors_does_not_swallow_a_signal() -> None:
    def block(_: StopSignal) -> None:
        with suppress(Exception):
            send(signal.SIGTERM)

    assert "stopped by SIGTERM" in str(ended_by(block)[1])


def test_a_second_signal_within_a_second_is_the_first_and_a_later_one_ends_at_once() -> None:
    """torchrun and the terminal both send one; a user who asks twice does not want to wait."""
    done = []

    def block(stop: StopSignal) -> None:
        with stop.deferred():
            send(signal.SIGINT)
            send(signal.SIGTERM)
            done.append(stop.received)
            stop.received_at -= signals.REPEATED
            send(signal.SIGINT)
            done.append("not heard")

    stopped = ended_by(block)[1]
    assert done == [signal.SIGINT]
    assert "asked twice" in str(stopped)
    assert stopped.exit_code == 130


@pytest.mark.parametrize(("seconds", "heard"), [(0.99, False), (1.0, True)])
def test_a_signal_is_a_second_one_a_second_after_the_first(
    seconds: float, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, looks = StopSignal(), iter([50.0, 50.0 + seconds])
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    stop.mode = "defer"
    stop._handle(signal.SIGTERM, None)
    with pytest.raises(Stopped, match="asked twice") if heard else nullcontext():
        stop._handle(signal.SIGTERM, None)
    assert stop.received is signal.SIGTERM


@pytest.mark.parametrize(("received", "name", "code"), [(None, "TERM", 75), (signal.SIGINT, "INT", 130)])
def test_a_rank_that_another_one_stops_says_what_would_have_stopped_it(
    received: signal.Signals | None, name: str, code: int
) -> None:
    stop = StopSignal()
    stop.received = received
    error = stop.error(1234)
    assert str(error) == f"stopped by SIG{name} after update 1,234, saved; the same command continues"
    assert error.exit_code == code


@pytest.mark.parametrize(
    ("numbers", "handled", "mode", "codes"),
    [
        ([signal.SIGTERM], False, "exit", [75]),
        ([signal.SIGINT], False, "exit", [130]),
        ([signal.SIGTERM], True, "exit", []),
        ([signal.SIGTERM], False, "defer", []),
        ([signal.SIGWINCH], False, "exit", []),
        ([signal.SIGWINCH, signal.SIGTERM], False, "exit", [75]),
    ],
    ids=str,
)
def test_only_what_is_not_handled_and_loses_nothing_ends_the_process_for_want_of_a_handler(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    numbers: list[signal.Signals],
    handled: bool,
    mode: Any,
    codes: list[int],
) -> None:
    """What Python's handler would have seen comes through a pipe, and 0 at the end."""
    ended, (reading, writing) = list[int](), os.pipe()
    monkeypatch.setattr(signals, "GRACE", 0.01)
    monkeypatch.setattr(signals.os, "_exit", ended.append)
    stop = StopSignal()
    stop.mode = mode
    if handled:
        stop.handled.set()
    os.write(writing, bytes([*numbers, 0]))
    os.close(writing)
    watcher = threading.Thread(target=stop._watch, args=(reading,))
    watcher.start()
    watcher.join()
    os.close(reading)
    assert ended == codes
    assert capfd.readouterr().err.count("s2s-train: stopped by") == len(codes)


def test_signals_do_afterwards_what_they_did_before() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    threads = set(threading.enumerate())  # other tests may have left some
    with StopSignal().handling():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before
    assert set(threading.enumerate()) <= threads


def test_a_child_dies_of_what_is_meant_to_end_it() -> None:
    """A worker that only remembered SIGTERM would outlive the pool that ends it so."""
    with StopSignal().handling() as stop:
        code = in_child(lambda: [os.kill(os.getpid(), signal.SIGTERM), time.sleep(5)])
        assert code == -signal.SIGTERM
        assert stop.received is None


def test_a_signal_is_heard_even_while_python_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    """As long as C code runs, no handler does: sentencepiece learns a vocabulary in one call."""

    def child() -> None:
        signals.GRACE = 0.1
        with StopSignal().handling():
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 200_000_000)

    began = time.monotonic()
    assert in_child(child) == 75
    assert time.monotonic() - began < 20
    assert capfd.readouterr().err == f"s2s-train: stopped by SIGTERM: {AT_ONCE}\n"


def test_a_signal_that_something_swallowed_is_heeded_before_the_first_update() -> None:
    def block(stop: StopSignal) -> None:
        with suppress(Stopped):
            send(signal.SIGTERM)
        with stop.deferred():
            pytest.fail("begun")

    assert AT_ONCE in str(ended_by(block)[1])


def test_a_signal_that_c_code_reports_as_an_error_of_its_own_is_a_signal() -> None:
    """As torch does when one comes while it asks a tensor's storage for its length."""

    def masked() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Stopped:
            raise TypeError("could not determine the shape") from None

    with pytest.raises(Preempted, match="stopped by SIGTERM"), StopSignal().handling():
        masked()
    stop = StopSignal()
    with stop.handling():
        assert stop.interruptible(masked) is None
        with pytest.raises(TypeError, match="mine"):
            raise TypeError("mine")
    with pytest.raises(TypeError, match="mine"), StopSignal().handling():
        raise TypeError("mine")


@pytest.mark.parametrize("n_signals", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_signals_at_random_moments_lose_nothing(undisturbed: Path, tmp_path: Path, n_signals: int) -> None:
    """Each stops the run within seconds, saved where it stands; the end has the bytes of a run without."""
    draw, n_stopped, folders = random.Random(n_signals), 0, (tmp_path / str(i) for i in itertools.count())
    folder = next(folders)
    while n_stopped < n_signals:
        pid = fork_training(folder, *RUN)
        time.sleep(draw.uniform(0.1, 1.0))
        began = time.monotonic()
        os.kill(pid, signal.SIGTERM)  # it is ours until we wait for it, even when it is done
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 75, -signal.SIGTERM), folder.with_suffix(".log").read_text()
        if code == 75:
            assert time.monotonic() - began < 20
            n_stopped += 1
        last = folder / "run" / "last"
        if code == 75 and last.exists() and "steps" in (stopped := status(folder)):  # else stopped before it went on
            assert last.resolve().name == f"step-{stopped['steps']:06d}"
        if code == 0:
            assert outcome(folder) == outcome(undisturbed)
            folder = next(folders)
    assert train(folder, *RUN) == 0
    assert outcome(folder) == outcome(undisturbed)
