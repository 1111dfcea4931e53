"""What a run shows: lines with means, a line that moves on a terminal, JSON for programs."""

from __future__ import annotations

import json
import os
import pty
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from shipped_plugins import shipped

from s2s import Observer
from s2s.config import Config, LogConfig, TrainConfig
from s2s.log import Log, choose_screen
from s2s_screens.lines import MovingMeans, UpdateLine, scientific, short
from s2s_screens.live import fitting
from s2s_screens.progress import RunLines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Clock:
    """A clock that moves by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for name in ("s2s_screens.progress", "s2s_screens.live"):
        monkeypatch.setattr(f"{name}.time", clock)
    return clock


class Run(Observer):
    """A log, and lines about it from `start` on, as a trainer calls them."""

    def __init__(self, path: Path, config: Config, log: Log) -> None:
        self.path, self.config, self.log = path, config, log
        self.observers: list[Observer] = [log]

    def start(self, step: int) -> None:
        self.log.start(step)
        step_of_objective = SimpleNamespace(objective=SimpleNamespace(extras=("nll",)))
        trainer: Any = SimpleNamespace(
            directory=self.path, config=self.config, log=self.log, train_step=step_of_objective
        )
        self.observers.append(RunLines(trainer))

    def update(self, record: Mapping[str, Any]) -> None:
        for observer in self.observers:
            observer.update(record)

    def validated(self, record: Mapping[str, Any]) -> None:
        for observer in self.observers:
            observer.validated(record)

    def saved(self, path: Path, seconds: float) -> None:
        for observer in self.observers:
            observer.saved(path, seconds)

    def finished(self, summary: Mapping[str, Any]) -> None:
        for observer in reversed(self.observers):
            observer.finished(summary)

    def close(self, error: BaseException | None) -> None:
        for observer in reversed(self.observers):
            observer.close(error)


def make(
    path: Path, every: int = 2, n_steps: int = 100_000, form: Any = "text", quiet: bool = False, rank: int = 0
) -> Run:
    config = LogConfig(every=every, format=form, tensorboard=False)
    screen = choose_screen(config, shipped().registry, quiet=quiet or rank > 0)
    log = Log(path, config, n_steps, screen, rank)
    return Run(path, Config(train=TrainConfig(steps=n_steps), log=config), log)


def update(step: int, **more: Any) -> dict[str, Any]:
    numbers = {"loss": 3.214, "nll": 1.98, "lr": 6.3e-4, "gnorm": 0.41, "tokens": 41_200, "padding": 0.062}
    numbers |= {"seconds": 0.2, "wait": 0.005, "mfu": 0.5, "flops": 9.4e9, "memory": 1.94e9}
    return {"step": step, **numbers, **more}


def journal(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]


def test_an_update_is_one_line_with_everything_in_it(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path) as run:
        run.start(12_398)
        for step in (12_399, 12_400):
            clock.now += 0.2336
            run.update(update(step))
    assert capsys.readouterr().out == (
        "update  12,400/100,000   12%  loss 3.214  nll 1.98  lr 6.3e-4  gnorm 0.41  176.4k tok/s  "
        "mfu 43% (40 GFLOP/s)  pad 6%  wait 2%  1.9 GB  ETA 05:41:03\n"
    )


def test_losses_are_means_per_token_since_the_line_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(0)
        for step, (tokens, loss) in enumerate([(9, 100.0), (9, 100.0), (10, 1.0), (30, 2.0)], start=1):
            run.update(update(step, tokens=tokens, loss=loss))
    assert "loss 1.750" in capsys.readouterr().out.splitlines()[-1]


def test_a_skipped_update_does_not_count_in_the_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(0)
        run.update(update(1, loss=float("nan"), gnorm=float("inf")))
        run.update(update(2, loss=1.5))
    assert "loss 1.500" in capsys.readouterr().out


def test_validation_and_saving_do_not_count_as_training_time(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path, n_steps=10) as run:
        run.start(0)
        clock.now += 2
        run.update(update(1))
        clock.now += 500
        run.validated({"step": 1, "nll": 1.0, "best": True})
        clock.now += 300
        run.saved(tmp_path / "checkpoints/step-000001", 300.0)
        clock.now += 2
        run.update(update(2))
    assert capsys.readouterr().out.endswith("ETA 00:00:16\n")


def test_a_clock_that_jumps_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path, n_steps=3) as run:
        run.start(0)
        run.update(update(1))
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 86_400)
        run.update(update(2))
    assert "ETA 00:00:0" in capsys.readouterr().out


def test_a_validation_and_its_checkpoint_share_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = {"step": 12_000, "nll": 1.87, "ppl": 6.49, "bleu": 24.71, "search": "beam 4", "best": True}
    with make(tmp_path) as run:
        run.start(12_000)
        run.validated({**record, "signatures": {"bleu": "nrefs:1"}})
        run.saved(tmp_path / "checkpoints/step-012000", 1.1)
        run.validated({**record, "best": False})
        run.update(update(12_001))
        run.saved(tmp_path / "checkpoints/step-012001", 0.25)
    assert capsys.readouterr().out.splitlines() == [
        "valid @12,000  nll 1.87  ppl 6.49  bleu 24.71 (beam 4)  best  saved checkpoints/step-012000 (1.1 s, verified)",
        "valid @12,000  nll 1.87  ppl 6.49  bleu 24.71 (beam 4)",
        "saved checkpoints/step-012001 (0.2 s, verified)",
    ]


def test_a_validation_without_a_checkpoint_is_shown_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path)
    run.start(5)
    run.validated({"step": 5, "nll": 1.5})
    assert capsys.readouterr().out == ""
    run.close(None)
    assert capsys.readouterr().out == "valid @5  nll 1.50\n"


def test_train_log_keeps_what_was_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.log.facts([("run", "runs/x"), ("data", "12 pairs"), ("data", "none dropped")])
        run.start(0)
        run.update(update(1))
        run.update(update(2))
        run.validated({"step": 2, "nll": 1.0})
    shown = capsys.readouterr().out
    assert shown.startswith("run   runs/x\ndata  12 pairs\n      none dropped\nupdate")
    assert (tmp_path / "train.log").read_text() == shown


def test_quiet_leaves_warnings_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path, quiet=True) as run:
        run.start(0)
        run.log.line("hello")
        run.update(update(2))
        run.log.warn("careful")
        run.finished({"steps": 2, "tokens": 10, "seconds": 1.0})
    assert capsys.readouterr() == ("", "warning: careful\n")
    assert [r["kind"] for r in journal(tmp_path)] == ["update", "warning", "summary"]


def test_other_ranks_print_and_write_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path, rank=1) as run:
        run.start(0)
        run.log.line("hello")
        run.log.warn("careful")
        run.update(update(2))
        run.validated({"step": 2, "nll": 1.0})
        run.saved(tmp_path, 1.0)
        run.finished({"steps": 2, "tokens": 10, "seconds": 1.0})
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_for_programs_every_line_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path, form="json") as run:
        run.log.line("hello")
        run.start(0)
        for step in (1, 2):
            run.update(update(step))
        run.validated({"step": 2, "nll": float("inf"), "best": True})
        run.saved(tmp_path / "checkpoints/step-000002", 0.5)
        run.finished({"steps": 2, "tokens": 10, "seconds": 1.0})
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["kind"] for r in records] == ["line", "update", "valid", "saved", "summary"]
    assert records[2]["nll"] is None


def test_the_summary_names_the_best_also_of_before_a_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as run:
        run.start(0)
        signatures = {"bleu": "nrefs:1|case:mixed"}
        run.validated({"step": 4, "nll": 1.0, "bleu": 20.0, "best": True, "signatures": signatures})
        run.validated({"step": 6, "nll": 1.2, "bleu": 19.0, "best": False, "signatures": signatures})
    with make(tmp_path) as run:
        run.start(6)
        capsys.readouterr()
        mean = {"path": str(tmp_path / "checkpoints/average"), "nll": 0.9, "bleu": 21.0, "search": "beam 4"}
        run.finished({"steps": 8, "tokens": 1_234_567, "seconds": 3725.0, "average": mean})
    assert capsys.readouterr().out.splitlines() == [
        "done  8 updates, 1.23M tokens, 01:02:05",
        "best  valid @4  nll 1.00  bleu 20.00",
        "      bleu: nrefs:1|case:mixed",
        "mean  nll 0.90  bleu 21.00 (beam 4)  saved checkpoints/average",
        f"next  s2s-generate run={tmp_path} input=FILE",
    ]


def on_terminal(action: Callable[[], None], monkeypatch: pytest.MonkeyPatch, columns: int = 150) -> str:
    """The output of `action` on a terminal so wide, control codes included."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    ours, theirs = pty.openpty()
    seen = bytearray()
    reader = threading.Thread(target=read_to_end, args=(ours, seen))
    reader.start()
    with monkeypatch.context() as patch, os.fdopen(theirs, "w") as out:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys, "stdout", out)
        action()
    reader.join()
    os.close(ours)
    return seen.decode()


def read_to_end(terminal: int, seen: bytearray) -> None:
    """All that is written to a terminal until its other end is closed, which reads as an error."""
    with suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            seen += part


def test_on_a_terminal_one_line_moves_at_most_once_a_second(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def action() -> None:
        with make(tmp_path, every=50, n_steps=101) as run:
            run.start(0)
            for step in range(1, 101):
                clock.now += 0.04
                run.update(update(step))
            run.log.line("a line that stays")

    monkeypatch.delenv("NO_COLOR", raising=False)
    text = on_terminal(action, monkeypatch, 200)
    assert 4 <= text.count("update") <= 6  # 4 s; a line that stays moves the picture down once more
    assert "━" in text
    assert "\x1b[32m━" in text
    assert "a line that stays\r\n" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor is back"


def test_a_fact_that_is_wider_than_the_terminal_goes_on_below_itself(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"option.{n}=value" for n in range(12)]

    def action() -> None:
        with make(tmp_path) as run:
            run.log.facts([("config", "  ".join(words)), ("run", "runs/a")])
            run.start(0)

    lines = on_terminal(action, monkeypatch, 80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) > 3
    assert [line[:8] for line in lines] == ["config  ", *[" " * 8] * (len(lines) - 2), "run     "]
    assert " ".join(lines[:-1]).split() == ["config", *words]
    assert "  ".join(words) in (tmp_path / "train.log").read_text(), "a file has no width"


WIDTHS = {
    60: "12,400/100,000   12%  loss 3.214  176.4k tok/s  ETA 05:41:03",
    80: "update  12,400/100,000   12%  loss 3.214  nll 1.98  176.4k tok/s  ETA 05:41:03",
}


@pytest.mark.parametrize("columns", [60, 80, 100, 150, 200])
def test_the_live_line_shows_as_much_as_the_terminal_has_room_for(
    columns: int, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an emulator: step, loss, speed and ETA always, more with the width, never a second line or a cut word."""
    pyte = pytest.importorskip("pyte", reason="the terminal emulator pyte (extra dev) is not installed")
    screen = pyte.Screen(columns, 10)
    stream = pyte.ByteStream(screen)
    shown: list[list[str]] = []

    def action() -> None:
        with make(tmp_path, every=50) as run:
            run.start(12_397)
            for step in (12_398, 12_399, 12_400):
                clock.now += 1
                run.update(update(step))

    written = on_terminal(action, monkeypatch, columns).encode()
    for end in range(len(written)):
        stream.feed(written[end : end + 1])
        if written[: end + 1].endswith(b"\x1b[?25h"):  # the line is still there when the cursor comes back
            break
        shown.append([line.rstrip() for line in screen.display if line.strip()])
    (line,) = max(shown, key=lambda lines: sum("12,400" in one for one in lines) * len("".join(lines)))
    for part in ("12,400/100,000", "loss 3.214", "tok/s", "ETA 1d 00:"):
        assert part in line
    assert len(line) <= columns
    assert "…" not in line


@pytest.mark.parametrize("width", range(54, 220))
def test_fields_come_with_the_width_and_never_go(width: int) -> None:
    means = MovingMeans(2)
    means.add(0.2336, update(12_400))
    line = UpdateLine.of(update(12_400), 100_000, means)
    found, wider = fitting(line, width), fitting(line, width + 1)
    assert len(found) <= width
    assert all(part in found for part in ("12,400/100,000", "loss 3.214", "176.4k tok/s", "ETA 05:41:03"))
    assert found in WIDTHS.get(width, found)
    if width > 180:
        assert found.replace("━" * 2 + "╌" * 18 + "  ", "") == str(line), "all there is"
        assert "━━╌╌╌" in found
    assert len(wider) >= len(found)


def test_no_color_is_respected(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def action() -> None:
        with make(tmp_path) as run:
            run.start(0)
            clock.now += 1
            run.update(update(1))

    monkeypatch.setenv("NO_COLOR", "1")
    text = on_terminal(action, monkeypatch)
    assert "update" in text
    assert "\x1b[38;5;" not in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.00063, "6.3e-4"), (1.0, "1.0e0"), (0.0, "0.0e0"), (1.24e-10, "1.2e-10")]
)
def test_scientific_is_short(value: float, text: str) -> None:
    assert scientific(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (1000, "1.00k"), (41_234, "41.2k"), (999_950, "1.00M"), (2.5e12, "2500.0G")],
)
def test_counts_are_short(value: float, text: str) -> None:
    assert short(value) == text
