"""No command writes over what it reads, or over what s2s did not write; each is asked for every kind of both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.tiny_runs import SMALL, train_tiny
from s2s.cli import average, generate, prepare, train
from s2s.io.outputs import record_of
from s2s_pcfg import command as pcfg
from s2s_report import command as report
from s2s_study import command as study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TREES = "(TOP (S (NP (D the) (N dog)) (VP (V sees) (NP (D a) (N cat)))))\n(TOP (S (VP (V see))))\n(TOP (NP (N dogs)))\n"
GRAMMAR = ["train", "task.train=t.mrg", "task.valid=t.mrg", "splits=0", "--quiet"]
LINES = ["run=x", "input=two.txt", "--quiet"]
PAGE = ["run=x", "input=in.html", "--quiet"]
FILES = ["hyp=[two.txt,other.html]", "ref=two.txt", "samples=0", "--quiet"]
PARSE = ["parse", "input=words.txt", "--quiet"]
STUDY = ["study.yaml", "only_table=true", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run x, a grammar, and texts."""
    folder = tmp_path_factory.mktemp("outputs")
    train_tiny(folder)
    (folder / "two.txt").write_text("the dog\na cat\n")
    (folder / "other.html").write_text("der hund\nein kater\n")
    (folder / "in.html").write_text("<p>the dog</p>\n")
    (folder / "words.txt").write_text("the dog sees\n")
    (folder / "t.mrg").write_text(TREES)
    (folder / "terms.tsv").write_text("dog\thund\n")
    (folder / "settings.yaml").write_text("nbest: 1\n")
    (folder / "report.yaml").write_text("shown: 1\n")
    (folder / "grammar.yaml").write_text("rare: 1\n")
    for name in ("mine.txt", "mine.html", "mine.md", "table.md"):
        (folder / name).write_text("mine\n")
    os.link(folder / "two.txt", folder / "hard.txt")
    (folder / "soft.txt").symlink_to("two.txt")
    (folder / "study.yaml").write_text("rows: {a: {}}\nbase: {task: translation_tiny, arch: transformer_tiny}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert pcfg.main([*GRAMMAR, "output=grammar.npz"]) == 0
    return folder


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def named(value: Any) -> str:
    """A command by its module, arguments by their end."""
    return value.__module__ if callable(value) else str(value)[-60:]


READ: list[tuple[Callable[[Sequence[str]], int], list[str]]] = [
    *((generate.main, [*LINES, f"output={name}"]) for name in ("two.txt", "hard.txt", "soft.txt")),
    *((generate.main, [*LINES, f"output=runs/x/{name}"]) for name in ("resolved.yaml", "new.txt", "tokenizer/x")),
    (generate.main, [*LINES, "output=runs/x/checkpoints/step-000004/model.safetensors"]),
    (generate.main, [*LINES, "output=a.de"]),
    (generate.main, ["settings.yaml", *LINES, "output=settings.yaml"]),
    (generate.main, [*LINES, "terms=terms.tsv", "output=terms.tsv"]),
    (generate.main, [*LINES, "terms=terms.tsv", "output=terms.tsv", "resume=true"]),
    (generate.main, [*LINES, "output=a.en", "shard=1/1"]),
    (generate.main, [*PAGE, "output=in.html"]),
    (generate.main, [*PAGE, "output=runs/x/report.html"]),
    (report.main, [*FILES, "output=other"]),
    (report.main, ["run=x", "sentences=0", "output=runs/x/checkpoints/report"]),
    (pcfg.main, [*PARSE, "output=words.txt"]),
    (pcfg.main, [*PARSE, "output=grammar.npz"]),
    (pcfg.main, [*GRAMMAR, "output=t.mrg"]),
    (pcfg.main, [*GRAMMAR, "grammar.yaml", "output=grammar.yaml"]),
    (study.main, ["base.train.init_from=runs/x", *STUDY, "output=runs/x/study"]),
]


@pytest.mark.parametrize(("command", "arguments"), READ, ids=named)
def test_what_a_command_reads_is_never_written_over(
    folder: Path, command: Callable[[Sequence[str]], int], arguments: list[str], capsys: Any
) -> None:
    before = contents(folder)
    for overwrite in ([], ["overwrite=true"]):
        assert command([*arguments, *overwrite]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is read" in line or "input and output are one file" in line
        assert contents(folder) == before


OTHERS: list[tuple[Callable[[Sequence[str]], int], list[str], str]] = [
    (generate.main, [*LINES, "output=mine.txt"], "mine.txt"),
    (generate.main, [*PAGE, "output=mine.html"], "mine.html"),
    (report.main, [*FILES, "output=mine"], "mine.html"),
    (pcfg.main, [*PARSE, "output=mine.txt"], "mine.txt"),
    (pcfg.main, [*GRAMMAR, "output=mine.txt"], "mine.txt"),
    (study.main, [*STUDY, "output=."], "table.md"),
]


@pytest.mark.parametrize(("command", "arguments", "mine"), OTHERS, ids=named)
def test_what_s2s_did_not_write_is_replaced_only_with_overwrite(
    folder: Path, tmp_path: Path, monkeypatch: Any, capsys: Any, command: Any, arguments: list[str], mine: str
) -> None:
    """And what it wrote is replaced without, until somebody changes it."""
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    before = contents(Path())
    assert command(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{mine} is there, and s2s did not write it" in line
    assert contents(Path()) == before
    for options in (["overwrite=true"], [], []):
        assert command([*arguments, *options]) == 0
        assert Path(mine).read_bytes() != before[mine]
    Path(mine).write_text("mine again\n")
    assert command(arguments) == 2
    assert Path(mine).read_text() == "mine again\n"
    Path(mine).unlink()
    assert command(arguments) == 0
    assert record_of(Path(mine)).is_file()


def test_standard_input_is_read_too(folder: Path) -> None:
    before = contents(folder)
    options = [LINES[0], "output=two.txt", "overwrite=true"]
    code = f"import sys; from s2s.cli.generate import main; sys.exit(main({options}))"
    with Path("two.txt").open("rb") as file:
        ran = subprocess.run([sys.executable, "-c", code], stdin=file, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "standard input, which is read" in ran.stderr
    assert contents(folder) == before


def test_a_pipe_is_written_and_stays_one(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for command, arguments in ((pcfg.main, PARSE), (generate.main, PAGE)):
            extra = ["input_format=html"] if command is generate.main else []
            assert command([*arguments, *extra, f"output={tmp_path}/pipe"]) == 0
            assert os.read(reading, 1000)
            assert (tmp_path / "pipe").is_fifo()
    finally:
        os.close(reading)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_word_is_not_the_run_or_the_folder_of_its_name(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Such as the task or the checkpoint after which a run or an output happens to be named."""
    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    for steps in (1, 2):
        assert train.main([*SMALL, f"train.steps={steps}", "run=translation", "--quiet"]) == 0
    assert generate.main(["run=translation", "checkpoint=last", "input=two.txt", "output=last", "--quiet"]) == 0


def test_a_run_does_not_begin_inside_one_that_it_reads(folder: Path, capsys: Any) -> None:
    before = contents(folder)
    assert train.main([*SMALL, "train.steps=1", "train.init_from=x", "run=runs/x/inner", "--quiet"]) == 2
    assert "lies in" in capsys.readouterr().err
    assert contents(folder) == before


def test_a_folder_of_somebody_else_is_no_temporary_one(folder: Path, tmp_path: Path, capsys: Any) -> None:
    arguments = [option for option in SMALL if option.startswith(("task", "data"))]
    assert prepare.main([*arguments, f"data.prepared={tmp_path}", "--quiet"]) == 0
    (made,) = (path for path in tmp_path.iterdir() if path.is_dir())
    made.rename(tmp_path / f".{made.name}.tmp")
    (tmp_path / f".{made.name}.tmp/precious").write_text("1")
    assert prepare.main([*arguments, f"data.prepared={tmp_path}", "--quiet"]) == 2
    assert "s2s did not make it" in capsys.readouterr().err
    assert (tmp_path / f".{made.name}.tmp/precious").read_text() == "1"


def test_an_average_with_somebody_s_notes_is_not_replaced(folder: Path, tmp_path: Path, capsys: Any) -> None:
    run = shutil.copytree(folder / "runs/x", tmp_path / "y", symlinks=True)
    assert average.main([f"run={run}", "last=2"]) == 0
    assert average.main([f"run={run}", "last=1"]) == 0
    (run / "checkpoints/average/notes.txt").write_text("mine")
    assert average.main([f"run={run}", "last=2"]) == 2
    assert "notes.txt, which s2s did not write" in capsys.readouterr().err
    assert (run / "checkpoints/average/notes.txt").read_text() == "mine"


def test_jobs_are_not_kept_in_a_run(folder: Path, capsys: Any) -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    from s2s_serve import command as serve

    before = contents(folder)
    assert serve.main(["run=x", "jobs=runs/x/jobs"]) == 2
    assert "lies in" in capsys.readouterr().err
    assert contents(folder) == before


def test_an_export_with_somebody_s_files_is_not_replaced(
    folder: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")
    from s2s_export import command as export

    shutil.copytree(folder, tmp_path / "copy", symlinks=True)
    monkeypatch.chdir(tmp_path / "copy")
    arguments = ["run=x", "sentences=2", "output=model", "--quiet"]
    assert export.main(["run=x", "output=runs/x/checkpoints/new"]) == 2
    for name in ("notes.txt", "config.json"):
        assert export.main(arguments) == 0
        Path("model", name).write_text("mine")
        assert export.main(arguments) == 2
        said = capsys.readouterr().err
        assert "did not write all in it" in said
        assert f"model/{name} is " in said
        assert Path("model", name).read_text() == "mine"
        assert export.main([*arguments, "overwrite=true"]) == 0
        assert not Path("model", "notes.txt").exists()
