"""The attack detects what it is meant to; its families run whole in the long tests."""

from __future__ import annotations

import random
import shutil
import sys
import time
from typing import TYPE_CHECKING

import pytest

from attack import sandbox
from attack.__main__ import FAMILIES, main
from attack.crafting import CRAFTS
from attack.flips import flip
from attack.sandbox import run, run_command
from attack.verdicts import BAD, Verdict, judge
from harness.tiny_runs import COMMANDS, train_tiny

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def says(text: str, code: int) -> Callable[[object], int]:
    return lambda _: print(text, file=sys.stderr) or code


def naps(each: float, seconds: float) -> int:
    """Wakes up now and then, as a command does that waits for others."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(each)
    return 0


def computes(seconds: float) -> int:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return 0


@pytest.mark.parametrize(
    ("command", "is_same", "verdict"),
    [
        (says("", 0), True, Verdict.FINE),
        (says("", 0), False, Verdict.SILENT),
        (says("warning: one was passed over", 0), False, Verdict.WARNED),
        (says("s2s-x: error: no such file", 2), False, Verdict.REFUSED),
        (says("", 2), True, Verdict.TRACEBACK),
        (says("s2s-x: error: one\ns2s-x: error: two", 2), True, Verdict.TRACEBACK),
        (says("s2s-x: error: no such file", 7), True, Verdict.TRACEBACK),
        (lambda _: 1 // 0, True, Verdict.TRACEBACK),
        (lambda _: sandbox.os.abort(), True, Verdict.TRACEBACK),
        (lambda _: time.sleep(60), True, Verdict.HANG),
        (lambda _: naps(0.1, 60), True, Verdict.HANG),
        (lambda _: computes(60), True, Verdict.HANG),
        (lambda _: naps(0.1, 1.3), True, Verdict.FINE),
    ],
    ids=[
        *("fine", "silent", "warned", "refused", "no line", "two lines", "odd code", "raised", "crashed"),
        *("idle", "waking", "computing", "slow"),
    ],
)
def test_every_end_of_a_command_has_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[object], int], is_same: bool, verdict: Verdict
) -> None:
    monkeypatch.setitem(COMMANDS, "s2s-x", command)
    monkeypatch.setattr(sandbox, "IDLE_SECONDS", 1)
    monkeypatch.setattr(sandbox, "WALL_SECONDS", 2.5)
    monkeypatch.setattr(sandbox, "CPU_SECONDS", 1)
    (tmp_path / "here").mkdir()
    assert judge(0, "", run(tmp_path / "here", "s2s-x", []), is_same).verdict is verdict


@pytest.mark.parametrize(("arguments", "code"), [(["show", "arch=transformer_tiny"], 0), (["show", "arch=nix"], 2)])
def test_a_command_of_a_shell_ends_as_its_fork_does(tmp_path: Path, arguments: list[str], code: int) -> None:
    (tmp_path / "here").mkdir()
    forked, started = (each(tmp_path / "here", "s2s-plugins", arguments) for each in (run, run_command))
    assert forked == started
    assert forked.code == code


def test_a_flip_changes_one_bit_and_no_time(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(9))
    before = file.stat().st_mtime_ns
    time.sleep(0.01)
    flip(file, 4, 3)
    assert file.read_bytes() == bytes([0, 0, 0, 0, 8, 0, 0, 0, 0])
    assert file.stat().st_mtime_ns == before


def test_every_way_to_craft_a_run_changes_it(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    train_tiny(tmp_path / "whole")
    before, n_changed = contents(tmp_path / "whole"), dict.fromkeys(CRAFTS, 0)
    for craft in n_changed:
        for seed in range(8):
            folder = tmp_path / f"{craft.__name__} {seed}"
            shutil.copytree(tmp_path / "whole", folder, symlinks=True)
            assert craft(random.Random(seed), folder)
            n_changed[craft] += contents(folder) != before
    assert min(n_changed.values()) >= 6, n_changed  # now and then a value is drawn that was there


def contents(folder: Path) -> dict[Path, object]:
    """What lies in a folder; of links, where they lead, and of pipes and folders, what they are."""
    return {
        path.relative_to(folder): path.readlink()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else path.lstat().st_mode
        for path in folder.rglob("*")
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_some_of_each_family_come_to_no_harm(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(sys, "argv", ["attack", family, "--count", "6", "--seed", "2", "--log", str(log)])
    assert main() == 0, capsys.readouterr().out
    assert not any(verdict in log.read_text() for verdict in BAD)
    n_cases = len(log.read_text().splitlines())
    assert main() == 0, "what is done is read from the log"
    assert len(log.read_text().splitlines()) == n_cases
