"""A line that is redrawn on a terminal, as wide as the terminal."""

from __future__ import annotations

import os
import pty
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from harness.followed_runs import make, update
from s2s.log.lines import MovingMeans, UpdateLine
from s2s.log.live import fitting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness.followed_runs import Clock


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
                run.updated(update(step))
            run.log.info("a line that stays")

    monkeypatch.delenv("NO_COLOR", raising=False)
    text = on_terminal(action, monkeypatch, 200)
    assert 4 <= text.count("update") <= 6  # 4 s; a line that stays moves the picture down once more
    assert "━" in text
    assert "\x1b[32m━" in text
    assert "a line that stays\r\n" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h"), "the cursor is back"


def test_the_line_shows_the_newest_of_updates_that_were_read_together(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def action() -> None:
        with make(tmp_path, every=50, n_steps=100) as run:
            run.start(0)
            clock.now += 1
            run.updated(*map(update, range(1, 31)))

    text = on_terminal(action, monkeypatch, 200)
    assert "30/100" in text
    assert " 1/100" not in text


def test_a_fact_that_is_wider_than_the_terminal_goes_on_below_itself(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"option.{n}=value" for n in range(12)]

    def action() -> None:
        with make(tmp_path) as run:
            run.log.show_facts([("config", "  ".join(words)), ("run", "runs/a")])
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
                run.updated(update(step, seconds=0.995))

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
    means.add(update(12_400, seconds=0.2286))
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
            run.updated(update(1))

    monkeypatch.setenv("NO_COLOR", "1")
    text = on_terminal(action, monkeypatch)
    assert "update" in text
    assert "\x1b[38;5;" not in text
