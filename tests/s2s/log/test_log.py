"""Records, warnings and plain lines of a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from s2s.config.duration import format_duration
from s2s.config.run import LogConfig
from s2s.log import Screen
from s2s.log.log import Log, RunLength

if TYPE_CHECKING:
    from pathlib import Path


def make(path: Path, every: int = 2, n_steps: int = 100_000) -> Log:
    return Log(path, LogConfig(every=every, tensorboard=False), RunLength(n_steps), Screen())


def update(step: int, **more: Any) -> dict[str, Any]:
    numbers = {"loss": 3.214, "nll": 1.98, "lr": 6.3e-4, "gnorm": 0.41, "tokens": 41_200, "padding": 0.062}
    numbers |= {"seconds": 0.2, "device_seconds": 0.2, "wait": 0.005, "mfu": 0.5, "flops": 9.4e9, "memory": 1.94e9}
    return {"step": step, **numbers, **more}


def journal(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]


def test_every_update_is_in_the_journal(tmp_path: Path) -> None:
    with make(tmp_path) as log:
        log.start(0)
        for step in range(1, 6):
            log.updated(update(step, loss=float("nan"), epoch=0))
            assert journal(tmp_path)[-1]["step"] == step, "each record is flushed"
    assert [r["step"] for r in journal(tmp_path)] == [1, 2, 3, 4, 5]
    assert journal(tmp_path)[0] == {"kind": "update", **update(1, loss=None, epoch=0)}


def test_a_resumed_run_has_one_record_for_each_step(tmp_path: Path) -> None:
    with make(tmp_path) as log:
        log.start(0)
        for step in range(1, 8):
            log.updated(update(step, tokens=1))
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"kind": "update", "step": 8, "lo')
    with make(tmp_path) as log:
        log.start(5)
        for step in (6, 7):
            log.updated(update(step, tokens=2))
    assert [(r["step"], r["tokens"]) for r in journal(tmp_path)] == [
        (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2), (7, 2),
    ]  # fmt: skip


def test_a_full_disk_tears_a_record_and_not_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as log:
        log.start(0)
        log.updated(update(1))
        assert log.jsonl is not None
        whole, log.jsonl.file = log.jsonl.file, open("/dev/full", "wb")  # noqa: SIM115, PTH123
        log.updated(update(2))
        log.updated(update(3))
        with pytest.raises(OSError, match="space left"):
            log.jsonl.file.close()
        log.jsonl.file = whole
        whole.write(b'{"kind": "upd')
        log.updated(update(4))
    assert capsys.readouterr().err.count("the log cannot be written, training goes on") == 1
    with make(tmp_path) as log:
        log.start(4)
        assert [r["step"] for r in log.jsonl.records("update")] == [1, 4]  # type: ignore[union-attr]


def test_a_warning_goes_to_standard_error_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with make(tmp_path) as log:
        log.warn("careful")
        log.start(0)
        log.warn("careful")
    assert capsys.readouterr() == ("", "warning: careful\n")
    assert (tmp_path / "train.log").read_text() == "warning: careful\n"
    assert journal(tmp_path) == [{"kind": "warning", "step": 0, "text": "careful"}]


def test_facts_are_aligned_and_the_warnings_among_them_come_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make(tmp_path) as log:
        log.show_facts([("run", "runs/x"), ("warning", "careful"), ("data", "12 pairs"), ("data", "none dropped")])
        log.start(0)
    shown = "run   runs/x\ndata  12 pairs\n      none dropped\n"
    assert capsys.readouterr() == (shown, "warning: careful\n")
    assert (tmp_path / "train.log").read_text() == shown + "warning: careful\n"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "00:00:00"), (59.6, "00:01:00"), (20_470, "05:41:10"), (106_870, "1d 05:41:10")]
)
def test_durations_are_clear(value: float, text: str) -> None:
    assert format_duration(value) == text


@pytest.mark.parametrize("line", ['{"step": "x"}', '{"kind": "valid", "best": true}', "[" * 100_000, "\0" * 99, "5"])
def test_what_is_no_record_is_dropped_from_the_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    (tmp_path / "log.jsonl").write_text(f'{{"kind": "warning", "step": 1, "text": "x"}}\n{line}\n')
    with Log(tmp_path, LogConfig(tensorboard=False), RunLength(3), Screen()) as log:
        log.start(1)
        log.finished({"steps": 1, "tokens": 9, "seconds": 1.0})
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert kinds == ["warning", "summary"]
