"""s2s-train train.devices=N as a shell calls it: several processes that look like one command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.folders import ROOT
from harness.ports import LOOPBACK, family, listening
from harness.sorting_runs import SMALL, WATCH, outcome, status, train, train_in_ranks
from s2s.cli.train import main
from s2s.errors import ConfigError
from s2s.io.exit_status import ExitStatus
from s2s_distributed import DistributedConfig
from s2s_distributed.launch import _report_cause, n_processes

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SHORT = ["train.steps=6", "valid.every=0", "checkpoint.every=2"]


def start(folder: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    """s2s-train with two processes; it writes what others of the tests' runs would."""
    plugins = f"plugins=[s2s_example,{WATCH}]"
    places = [f"run={folder / 'run'}", f"data.prepared={folder.parent / 'prepared'}"]
    return subprocess.Popen(
        [sys.executable, "-m", "s2s.cli.train", plugins, *SMALL, *places, "train.devices=2", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "examples/s2s-example"), *sys.path[1:]]), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], within: float = 100) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    out, err = process.communicate(timeout=within)
    return process.returncode, out, err


def test_two_processes_are_one_command_and_what_is_said_is_said_once(tmp_path: Path) -> None:
    """It learns what processes started by hand learn."""
    code, out, err = ended(start(tmp_path / "a", *SHORT))
    assert (code, err) == (0, ""), err
    assert out.count("cpu, fp32, 2 processes") == 1
    assert out.count("done  6 updates") == 1
    assert train_in_ranks(tmp_path / "b", 2, *SHORT) == [0, 0]
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("TERM", 75), ("USR1", 75), ("INT", 130)])
def test_a_signal_to_the_command_saves_and_is_said_once(tmp_path: Path, name: str, code: int) -> None:
    process = start(tmp_path / "a", "train.steps=100000", "valid.every=0", "--quiet")
    wait_for_update(tmp_path / "a", 3)
    process.send_signal(signal.Signals[f"SIG{name}"])
    found, out, err = ended(process)
    (said,) = [line for line in err.splitlines() if not line.startswith("warning: train.steps=")]
    assert (found, out) == (code, "")
    assert said.startswith(f"s2s-train: stopped by SIG{name} after update ")
    assert status(tmp_path / "a")["state"] == "preempted"


@pytest.mark.slow
def test_a_signal_that_one_process_hears_stops_the_command(tmp_path: Path) -> None:
    code, _, err = ended(start(tmp_path / "a", "train.steps=99", "valid.every=0", "--quiet", SIGNAL="TERM updating 4"))
    assert code == 75
    assert err == "s2s-train: stopped by SIGTERM after update 4, saved; the same command continues\n"


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again_and_the_end_is_the_same(tmp_path: Path) -> None:
    arguments = ["train.steps=30", "valid.every=6", "checkpoint.every=3", "train.average=3"]
    assert train_in_ranks(tmp_path / "whole", 2, *arguments) == [0, 0]
    code, _, err = ended(
        start(tmp_path / "parts", *arguments, SIGNAL="KILL updating 17", SIGNAL_RANK="1", ONCE=str(tmp_path / "once"))
    )
    assert code == 0, err
    assert "rank 1 was ended by SIGKILL" in err
    assert "starting again (1 of 3)" in err
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no signal for a parent's death")
def test_no_process_outlives_a_command_that_was_killed(tmp_path: Path) -> None:
    process = start(tmp_path / "a", "train.steps=100000", "valid.every=0", "--quiet")
    wait_for_update(tmp_path / "a", 2)
    _, *ranks = family(process.pid)
    process.kill()
    try:
        ended(process, within=10)  # all of them hold its output open
        assert len(ranks) >= 2
        until = time.monotonic() + 10  # a process that is ending closes its files first
        while any(map(is_running, ranks)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(map(is_running, ranks))
    finally:
        for pid in filter(is_running, ranks):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended; who adopted it may not have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_listens_beyond_this_machine_and_only_the_user_can_enter_where_ranks_meet(tmp_path: Path) -> None:
    process = start(tmp_path / "a", "train.steps=100000", "valid.every=0", "--quiet", TMPDIR=str(tmp_path))
    try:
        wait_for_update(tmp_path / "a", 2)
        ranks = family(process.pid)
        assert len(ranks) >= 3
        addresses = set().union(*(listening(pid) for pid in ranks))
        assert addresses, "gloo listens somewhere, or the test sees nothing"
        assert addresses <= LOOPBACK
        (store,) = tmp_path.glob("*/store")
        assert store.parent.stat().st_mode & 0o777 == 0o700
    finally:
        process.send_signal(signal.SIGTERM)
        ended(process)


def test_a_mistake_is_one_line_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "a", "train.devices=2", "arch.n_heads=3") == 2
    assert train(tmp_path / "a", "train.devices=0") == 2
    assert train(tmp_path / "a", "train.devices=2", "train.device=cuda:1") == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.slow
def test_what_processes_find_out_alone_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run").write_text("no directory")
    code, _, err = ended(start(tmp_path / "a", *SHORT))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert err.startswith("s2s-train: error: run directory")


def test_auto_is_one_process_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 5)
    assert n_processes(DistributedConfig(devices="auto")) == 5
    assert n_processes(DistributedConfig(devices="auto", device="cpu")) == 1
    assert n_processes(DistributedConfig(devices="auto", device="cuda")) == 5
    assert n_processes(DistributedConfig(devices=3)) == 3
    with pytest.raises(ConfigError, match="expected a number of processes, or auto"):
        DistributedConfig(devices="all")


OURS = ExitStatus("error: data/x is empty", 2, "self", 0, 1.0)
LOST = ExitStatus("error: another process has ended", 1, "peer", 1, 2.0)
HUNG = ExitStatus("error: rank 1 hangs", 1, "hang", 0, 1.0)
STOPPED = ExitStatus("stopped by SIGTERM: nothing had to be saved", 75, "self", 1, 3.0)


@pytest.mark.parametrize(
    ("codes", "statuses", "expected", "said"),
    [
        ({0: 2}, [OURS, LOST], (2, False), OURS.message),
        ({0: 2, 1: -15}, [OURS], (2, False), OURS.message),
        ({1: -9}, [STOPPED._replace(rank=0)], (1, True), "rank 1 was ended by SIGKILL"),
        ({1: -9, 0: -15}, [LOST], (1, True), "rank 1 was ended by SIGKILL"),
        ({0: 1}, [HUNG, STOPPED], (1, True), HUNG.message),
        ({0: 75, 1: 75}, [STOPPED], (75, False), STOPPED.message),
        ({0: 1}, [LOST], (1, False), LOST.message),
    ],
)
def test_the_reason_is_told_from_its_consequences(
    codes: dict[int, int],
    statuses: list[ExitStatus],
    expected: tuple[int, bool],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _report_cause(codes, statuses) == expected
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def wait_for_update(folder: Path, step: int) -> None:
    """Until the run's log tells of an update."""
    until = time.monotonic() + 150
    while time.monotonic() < until:
        log = folder / "run" / "log.jsonl"
        if log.exists() and log.read_text().count('"kind": "update"') >= step:
            return
        time.sleep(0.1)
    raise AssertionError("no update in 150 seconds")


def test_a_number_of_devices_without_the_plugin_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", "distributed")
    assert main(["task=translation", "arch=transformer_tiny", "train.devices=2"]) == 2
    assert "train.devices: no such option" in capsys.readouterr().err
