"""Which directory and which checkpoint a name means, and the error for one that means none."""

from __future__ import annotations

from pathlib import Path

import pytest

from s2s.checkpoint import directory as checkpoint
from s2s.errors import CheckpointError
from s2s.io import atomic
from s2s.run.paths import candidates, find_run, run_path, set_last_run


def make(path: Path) -> Path:
    """A run, as far as its name is concerned."""
    path.mkdir(parents=True)
    (path / "resolved.yaml").write_text("")
    return path


@pytest.mark.parametrize(
    ("name", "path"), [("x", "runs/x"), ("./x", "x"), ("a/b", "a/b"), ("/a", "/a"), (".", "."), ("..", "..")]
)
def test_a_bare_name_lies_under_runs_and_a_path_is_taken_as_it_is(name: str, path: str) -> None:
    assert run_path(name) == Path(path)


def test_a_run_under_runs_comes_before_a_folder_of_its_name() -> None:
    make(Path("x"))
    assert find_run("x") == Path("x")
    make(Path("runs/x"))
    assert find_run("x") == Path("runs/x")
    assert find_run("./x") == Path("x")


def test_last_follows_its_pointer_and_is_no_folder_of_that_name() -> None:
    make(Path("last"))
    with pytest.raises(CheckpointError, match=r"^run=last: no run was started here yet \(runs/last points nowhere\)$"):
        find_run("last")
    make(Path("runs/x"))
    set_last_run(Path("runs/x"))
    assert find_run("last") == Path("runs/x")
    elsewhere = make(Path("../elsewhere").resolve())
    set_last_run(Path("../elsewhere"))
    assert find_run("last") == elsewhere
    elsewhere.rename("moved")
    with pytest.raises(CheckpointError, match="points nowhere"):
        run_path("last")


def test_without_runs_there_is_no_last() -> None:
    set_last_run(make(Path("x")))
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "x=: no such run, neither under runs/ nor as a path. Known: last, mine."),
        ("mime", "x=mime: no such run, neither under runs/ nor as a path. Did you mean 'mine'?"),
        ("lats", "x=lats: no such run, neither under runs/ nor as a path. Did you mean 'last'?"),
        ("folder", "x=folder: runs/folder is no run directory: it has no resolved.yaml"),
        ("other", "x=other: other is no run directory: it has no resolved.yaml"),
    ],
)
def test_what_is_no_run_is_said_with_the_nearest_that_is(name: str, message: str) -> None:
    make(Path("runs/mine"))
    Path("runs/folder").mkdir()
    Path("other").mkdir()
    with pytest.raises(CheckpointError) as caught:
        find_run(name, "x")
    assert str(caught.value) == message


@pytest.mark.parametrize("folder", [None, "runs"])
def test_where_nothing_was_trained_yet_it_is_said(folder: str | None) -> None:
    if folder:
        Path(folder).mkdir()
    with pytest.raises(CheckpointError, match=r"^run=x: no such run, .*\. There are no runs under runs/ yet\.$"):
        find_run("x")


@pytest.fixture
def run() -> Path:
    """A run with three checkpoints."""
    folder = make(Path("runs/x"))
    for step in (1, 2, 10):
        (folder / "checkpoints" / checkpoint.step_name(step)).mkdir(parents=True)
    return folder


def found(run: Path, wanted: str) -> list[str]:
    return [path.name for path in candidates(run, wanted)]


def test_the_average_comes_before_the_best_and_that_before_the_newest(run: Path) -> None:
    newest = ["step-000010", "step-000002", "step-000001"]
    assert found(run, "auto") == found(run, "last") == newest
    atomic.write_link(run / "best", run / "checkpoints/step-000002")
    assert found(run, "auto") == ["step-000002", "step-000010", "step-000001"]
    (run / "checkpoints/average").mkdir()
    assert found(run, "auto") == ["average", "step-000002", "step-000010", "step-000001"]
    assert found(run, "last") == newest
    atomic.write_link(run / "best", run / "checkpoints/step-000007")
    assert found(run, "auto") == ["average", *newest], "what is gone is not tried"
    assert found(run, "best") == ["step-000007"], "but named where it was asked for"


def test_a_checkpoint_has_a_name_in_its_run_or_a_path(run: Path) -> None:
    assert candidates(run, "step-000002") == [run / "checkpoints/step-000002"]
    Path("step-000003").mkdir()
    assert candidates(run, "step-000003") == [Path("step-000003")]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("step-00002", "checkpoint=step-00002: runs/x has no such checkpoint. Did you mean 'step-000002'?"),
        ("best", "checkpoint=best: runs/x has no such checkpoint. Known: auto, last, step-000001, step-000002, "
            "step-000010."),
        ("", "checkpoint=: runs/x has no such checkpoint. Known: auto, last, step-000001, step-000002, step-000010."),
    ],
)  # fmt: skip
def test_the_checkpoints_that_there_are_are_named(run: Path, wanted: str, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        candidates(run, wanted)
    assert str(caught.value) == message


def test_the_best_and_the_average_are_named_where_there_are_any(run: Path) -> None:
    atomic.write_link(run / "best", run / "checkpoints/step-000002")
    (run / "checkpoints/average").mkdir()
    with pytest.raises(CheckpointError, match=r"Known: auto, average, best, last, step-000001"):
        candidates(run, "x")
