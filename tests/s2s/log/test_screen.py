"""What a run shows, and what its log gives to the screen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.config.run import LogConfig
from s2s.errors import ConfigError
from s2s.log import Screen
from s2s.log.log import Log, RunLength, nonfinite_to_null, scalars
from s2s.log.screen import choose_screen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Recording(Screen):
    """Notes what it is given."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self.records: list[Mapping[str, Any]] = []
        self.is_closed = False

    def line(self, text: str, indent: int = 0) -> None:
        self.lines.append((text, indent))

    def record(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("every", "due"), [(0, [5]), (1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (100, [5])], ids=str
)
def test_every_so_many_updates_are_shown_and_the_last(every: int, due: list[int], tmp_path: Path) -> None:
    screen = Recording()
    with Log(tmp_path, LogConfig(every=every), RunLength(5), screen) as log:
        log.start(0)
        assert [step for step in range(1, 6) if log.is_due(step)] == due
        for step in range(1, 6):
            log.updated({"step": step})
        assert [record["step"] for record in log.records("update")] == [1, 2, 3, 4, 5]
    assert screen.records == [{"kind": "update", "step": step} for step in due]


def test_all_but_updates_are_always_shown_with_their_kind_and_step(tmp_path: Path) -> None:
    screen = Recording()
    with Log(tmp_path, LogConfig(every=0), RunLength(100), screen) as log:
        assert list(log.records("valid")) == []
        log.start(3)
        log.validated({"step": 4, "loss": 1.0})
        log.updated({"step": 5})
        log.saved(tmp_path / "checkpoints" / "x", 0.5)
        log.saved(tmp_path.parent / "elsewhere", 0.5)
        log.warn("careful")
        log.finished({"steps": 5})
        assert not screen.is_closed
    assert screen.is_closed
    assert screen.records == [
        {"kind": "valid", "step": 4, "loss": 1.0},
        {"kind": "saved", "step": 5, "path": "checkpoints/x", "seconds": 0.5},
        {"kind": "saved", "step": 5, "path": str(tmp_path.parent / "elsewhere"), "seconds": 0.5},
        {"kind": "warning", "step": 5, "text": "careful"},
        {"kind": "summary", "step": 5, "steps": 5},
    ]


def test_lines_that_are_broken_go_on_below_the_fact(tmp_path: Path) -> None:
    screen = Recording()
    with Log(tmp_path, LogConfig(), RunLength(5), screen) as log:
        log.show_facts([("run", "x"), ("data", "y")])
        log.info("plain")
        log.show("about a record")
        log.show_facts([("warning", "alone")])
    assert screen.lines == [("run   x", 6), ("data  y", 6), ("plain", 0), ("about a record", 0)]
    lines = [{"kind": "line", "text": text} for text in ("run   x", "data  y", "plain")]
    assert screen.records == [*lines, {"kind": "warning", "step": 0, "text": "alone"}]


def test_other_ranks_write_nothing_and_warn_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Recording()
    with Log(tmp_path, LogConfig(every=1), RunLength(5), screen, rank=1) as log:
        log.start(0)
        log.updated({"step": 1})
        log.warn("careful")
        log.show("text")
    assert list(tmp_path.iterdir()) == []
    assert screen.records == []
    assert capsys.readouterr() == ("", "")


def test_a_line_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the output is a pipe, which Python would fill first."""
    events: list[str] = []
    monkeypatch.setattr("sys.stdout", SimpleNamespace(write=events.append, flush=lambda: events.append("flush")))
    Screen().line("text", 4)
    assert events == ["text", "\n", "flush"]


def registry(*names: str) -> Any:
    return SimpleNamespace(
        names=lambda group: list(names),
        known_hint=lambda group: f" Registered: {', '.join(names)}.",
        build_default=lambda group, name: f"{group} {name}",
    )


def test_the_screen_is_the_one_that_is_named() -> None:
    for name, built in (("text", "screen live"), ("json", "screen json")):
        screen: Any = choose_screen(LogConfig(format=name), registry("live", "json"), quiet=False)
        assert screen == built
    with pytest.raises(ConfigError, match=r"log.format=xml: neither text nor a registered screen. Registered: json."):
        choose_screen(LogConfig(format="xml"), registry("json"), quiet=False)


def test_a_quiet_screen_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = choose_screen(LogConfig(format="text"), registry("live"), quiet=True)
    screen.line("text")
    screen.record({"kind": "line"})
    screen.close()
    assert capsys.readouterr() == ("", "")


def test_a_record_holds_what_strict_json_can() -> None:
    given = {"a": float("inf"), "b": [1, float("nan"), (2.5, None)], 3: {"c": True}, "d": tuple}
    assert nonfinite_to_null(given) == {
        "a": None,
        "b": [1, None, [2.5, None]],
        "3": {"c": True},
        "d": "<class 'tuple'>",
    }


def test_the_numbers_of_a_record_have_its_names_but_for_the_step() -> None:
    record = {"step": 3, "loss": 1.5, "tokens": 7, "best": True, "search": "beam 4", "average": None}
    assert scalars(record) == {"loss": 1.5, "tokens": 7.0, "best": 1.0}
    assert scalars(record, "train/") == {"train/loss": 1.5, "train/tokens": 7.0, "train/best": 1.0}
