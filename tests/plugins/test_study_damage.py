"""Damaged files of a study: the table is the same, or a line says what it lacks."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from s2s_study import job
from tests.plugins import test_study_runs
from tests.plugins.test_study_runs import ECHO, STUDY, n_trained, study, table, write

if TYPE_CHECKING:
    from pathlib import Path

folder = test_study_runs.folder
MEASURES = ["steps", "ppl", "bleu", "parameters"]


def whole(folder: Path) -> str:
    """The table of a study of one run, made from the beginning."""
    write(folder, seeds=[1], rows={"base": {}}, measures=MEASURES)
    assert study() == 0
    return table_text(folder)


def table_text(folder: Path) -> str:
    return (folder / "studies/tiny/table.csv").read_text()


def only(folder: Path, pattern: str) -> Path:
    (path,) = (folder / "studies/tiny").glob(pattern)
    return path


def digit(path: Path) -> None:
    """Another score, as a flipped bit or a hand leaves it."""
    path.write_text(re.sub(r'("bleu": \d)', lambda match: f"{match[1]}7", path.read_text()))


def word(path: Path) -> None:
    path.write_text(path.read_text().replace("ein", "kein"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [("jobs/*.result.json", digit), ("jobs/*.outputs.txt", word), ("jobs/*.result.json", pipe)],
    ids=["a digit", "an output", "a pipe"],
)
def test_a_damaged_result_is_left_out_or_made_again(
    pattern: str, damage: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = whole(folder)
    path = only(folder, pattern)
    damage(path)
    assert study("only_table=true") == 0
    assert re.search(
        r"warning: .*\.(result\.json|outputs\.txt) is damaged: .*; it is left out\n", capsys.readouterr().err
    )
    assert table(folder)["base", "bleu"]["n"] == "0"
    assert study() == 0
    assert "it is made again" in capsys.readouterr().err
    assert table_text(folder) == before
    assert path.is_file()


def test_a_damaged_checkpoint_is_made_again_before_it_is_scored(folder: Path) -> None:
    before = whole(folder)
    only(folder, "jobs/*.result.json").unlink()
    weights = only(folder, "runs/*/checkpoints/step-000004/model.safetensors")
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert study() == 0
    assert (weights.read_bytes(), table_text(folder)) == (good, before)


def test_the_scores_of_another_checkpoint_are_no_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = {**STUDY["base"], "train": {**STUDY["base"]["train"], "average": 2}, "checkpoint": {"every": 2}}
    write(folder, seeds=[1], rows={"base": {}}, measures=MEASURES, base=base)
    assert study() == 0
    only(folder, "jobs/*.result.json").unlink()
    only(folder, "runs/*/checkpoints/average/model.safetensors").write_bytes(b"x")
    assert study() == 1
    assert "scores of another checkpoint are no result of this job" in capsys.readouterr().err
    assert table(folder)["base", "bleu"]["n"] == "0"


def test_a_configuration_that_was_changed_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole(folder)
    path = only(folder, "jobs/base-1-????????.yaml")
    path.write_text(path.read_text().replace("d_ff: 8", "d_ff: 9"))
    assert study() == 2
    assert f"{path} is not as s2s-study wrote it" in capsys.readouterr().err
    path.unlink()
    assert study() == 0
    assert n_trained(folder) == 1


def test_commands_run_again_when_their_outputs_were_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    echo = f'python -c "{ECHO}" {{src}} {{hyp}} {{output}}/note.txt'
    write(folder, rows={"copy": {"commands": [echo]}}, seeds=[1], measures=["bleu"])
    monkeypatch.setattr(job, "call", lambda command, lock: subprocess.call(command))
    assert study() == 0
    before, note = table_text(folder), folder / "studies/tiny/note.txt"
    only(folder, "jobs/*.result.json").unlink()
    assert study() == 0
    assert note.read_text() == "once "
    only(folder, "jobs/*.result.json").unlink()
    only(folder, "runs/*/hyp.txt").write_text("x\n" * 5)
    assert study() == 0
    assert note.read_text() == "once once "
    assert table_text(folder) == before
