"""What a user can do wrong, each case as it was found: one line says what to do, and nothing is lost."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.corrupt_optimizer import OPTIM_CHANGES, vouch_again
from harness.tiny_runs import SMALL, call, enter_copy, train_tiny
from s2s.cli import generate
from s2s.cli.failures import guard

if TYPE_CHECKING:
    from pathlib import Path

CONTINUED = [*SMALL, "train.steps=6", "run=x", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_tiny(folder)
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, to be spoilt."""
    return enter_copy(trained, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "state",
    [
        *({}, [], None, 5, {"trainer": {}}, {"trainer": {"step": "x"}, "optim": None, "scaler": {}}),
        {"trainer": {"steps": 1}, "optim": {"dict": []}, "scaler": {}},
    ],
    ids=repr,
)
def test_a_state_of_another_version_is_no_bug(here: Path, capsys: Any, state: object) -> None:
    folder = here / "runs/x/checkpoints/step-000004"
    (folder / "state.json").write_text(json.dumps(state))
    vouch_again(folder)
    code, _, err = call("s2s-train", CONTINUED, capsys)
    assert code == 2
    assert "step-000004 is whole, but not what this version of s2s saves" in err


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((["split_factor"], value) for value in ("inf", 0, 10**30)),
        (["trainer", "step"], -1),
        (["optim", "betas"], {"tuple": [0.9, "x"]}),
    ],
    ids=repr,
)
def test_a_state_with_a_value_of_another_kind_is_no_bug(
    here: Path, capsys: Any, place: list[str], value: object
) -> None:
    path = here / "runs/x/checkpoints/step-000004"
    state = json.loads((path / "state.json").read_text())
    if place[0] == "optim":
        ((_, groups),) = [pair for pair in state["optim"]["dict"] if pair[0] == "param_groups"]
        (pair,) = [pair for pair in groups[0]["dict"] if pair[0] == place[1]]
        pair[1] = value
    else:
        (state if len(place) == 1 else state[place[0]])[place[-1]] = value
    (path / "state.json").write_text(json.dumps(state))
    vouch_again(path)
    code, _, err = call("s2s-train", CONTINUED, capsys)
    assert code == 2
    assert "step-000004 is whole, but not what this version of s2s saves" in err


@pytest.mark.parametrize("change", OPTIM_CHANGES)
def test_an_optimizer_state_that_nothing_can_step_with_is_no_bug(here: Path, capsys: Any, change: str) -> None:
    path = here / "runs/x/checkpoints/step-000004"
    place = OPTIM_CHANGES[change](path)
    vouch_again(path)
    code, _, err = call("s2s-train", CONTINUED, capsys)
    assert code == 2
    assert "step-000004 is whole, but not what this version of s2s saves" in err
    assert place in err


def test_prepared_data_goes_into_a_folder_that_can_be(here: Path, capsys: Any) -> None:
    for folder, complaint in {"": "give a folder", "~no-such-user/x": "no such user", "a.en": "which is read"}.items():
        code, _, err = call("s2s-prepare", [*SMALL[:3], f"data.prepared={folder}"], capsys)
        assert code == 2
        assert complaint in err


@pytest.mark.parametrize("seed", [0, 2**62, 2**63 - 1])
def test_any_seed_trains(here: Path, capsys: Any, seed: int) -> None:
    assert call("s2s-train", [*SMALL, "train.steps=1", f"seed={seed}", "run=seeded", "--quiet"], capsys)[0] == 0


GENERATE = ["run=x", "threads=1", "input=a.en"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["output="], "name a file, or - for standard output"),
        (["output=."], "output=.: name a file"),
        (["output=runs"], "output=runs: name a file"),
        (["output=a.en"], "input and output are one file, a.en"),
        (["output=same"], "input and output are one file, a.en"),
        (["output=loop"], "give another file"),
        (["output=" + "x" * 300], "File name too long; give another file"),
        (["output=" + "x" * 250], "cannot be written: File name too long"),
        (["output=no/such"], "there is no folder no"),
        (["output=taken"], "taken.partial cannot be written"),
        (["output=/dev/null", "resume=true"], "resume=true compares files"),
        (["input=" + "x" * 300], "cannot be read"),
        (["input="], "is a folder"),
        (["run=" + "x" * 300], "no such run"),
        (["search.beam=1_000_000"], "search.beam=1000000 must be at least 1 and at most 10000"),
    ],
    ids=lambda value: value[0][:30] if isinstance(value, list) else "",
)
def test_what_cannot_be_generated_is_said_and_nothing_is_written(
    here: Path, capsys: Any, arguments: list[str], complaint: str
) -> None:
    (here / "same").symlink_to("a.en")
    (here / "loop").symlink_to("loop")
    (here / "taken.partial").mkdir()
    before = {path: path.lstat().st_mtime_ns for path in here.iterdir()}
    code, out, err = call("s2s-generate", [*GENERATE, *arguments], capsys)
    assert (code, out) == (2, "")
    assert complaint in err
    assert {path: path.lstat().st_mtime_ns for path in here.iterdir()} == before


def test_a_device_or_a_pipe_is_written_to_and_never_replaced(here: Path, capsys: Any) -> None:
    os.mkfifo(here / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend((here / "pipe").read_text().splitlines()))
    reader.start()
    assert call("s2s-generate", [*GENERATE, "output=pipe"], capsys)[0] == 0
    reader.join(10)
    assert len(read) == len((here / "a.en").read_text().splitlines())
    assert stat.S_ISFIFO((here / "pipe").stat().st_mode)


def test_a_link_to_an_output_stays_a_link(here: Path, capsys: Any) -> None:
    (here / "elsewhere").mkdir()
    (here / "out").symlink_to("elsewhere/out")
    assert call("s2s-generate", [*GENERATE, "output=out"], capsys)[0] == 0
    assert (here / "out").is_symlink()
    assert len((here / "elsewhere/out").read_text().splitlines()) == 100


@pytest.mark.parametrize("header", ["", "[]", "null", "5", "[" * 100_000, '"x"', "{}"], ids=lambda h: h[:9])
def test_outputs_of_unknown_origin_are_not_continued(here: Path, capsys: Any, header: str) -> None:
    (here / "out.partial").write_text("ein\n")
    (here / "out.partial.json").write_text(header)
    code, _, err = call("s2s-generate", [*GENERATE, "output=out", "resume=true"], capsys)
    assert code == 2
    assert "output=out would write over out.partial" in err
    assert (here / "out.partial").read_text() == "ein\n"


def test_streams_that_the_shell_has_closed_are_said_to_be(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", None)
        assert "standard input is closed" in call("s2s-generate", [*GENERATE[:2]], capsys)[2]
        assert "standard input is closed" in call("s2s-score", ["task=translation", "hyp=-", "ref=a.de"], capsys)[2]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        code, err = generate.main(GENERATE), capsys.readouterr().err
    assert code == 2
    assert "output=-: standard output is closed; give output=FILE" in err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_not_the_next_file(tmp_path: Path, closed: str) -> None:
    """A file opened where standard output was would get what is printed."""
    (tmp_path / "a").write_text("one\ntwo\n")
    code = "import sys; from s2s.cli.score import main; sys.exit(main())"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} task=translation hyp=a ref=a samples=0 {closed}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


def test_a_terminal_without_a_sign_gets_it_spelt_out(tmp_path: Path) -> None:
    code = "import sys; from s2s.cli.failures import guard; sys.exit(guard('x', lambda: print('süß ━') or 0))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "s\\xfc\\xdf \\u2501\n")


def test_more_memory_than_there_is_is_no_bug(capsys: Any) -> None:
    def run() -> int:
        torch.empty(2**50)
        return 0

    assert guard("s2s-train", run) == 1
    assert "can't allocate memory" in capsys.readouterr().err
