"""`python -m s2s`: the commands that are installed, listed and run."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import s2s.__main__ as module
from s2s.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

MODULES = {
    "said.py": '"""s2s-said: what it does.\n\nMore of it."""\nimport sys\ndef main():\n    return sys.argv',
    "plain.py": '"""One sentence\nand more."""',
    "silent.py": "",
    "spread/of_a_package.py": "",
}
POINTS = [("s2s-said", "said:main"), ("s2s-plain", "plain:main"), ("s2s-silent", "silent:main")]
POINTS += [("s2s-gone", "no_such_module:main"), ("s2s-spread", "spread:main")]


@pytest.fixture
def _commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of modules with and without a text."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(name, value, "console_scripts") for name, value in POINTS]
    points.append(EntryPoint("s2s-plugin", "said", "s2s"))
    monkeypatch.setattr(module, "distribution", lambda _: SimpleNamespace(entry_points=points))
    monkeypatch.setattr(sys, "argv", ["python"])


@pytest.mark.usefixtures("_commands")
@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["-h", "said"]], ids=str)
def test_commands_are_listed_with_the_first_line_about_each(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 0
    first, _, *listed = capsys.readouterr().out.splitlines()
    assert first == "python -m s2s COMMAND …, or s2s-COMMAND …, each with --help:"
    assert [line.split(maxsplit=1) for line in listed] == [
        ["s2s-gone"], ["s2s-plain", "One sentence"], ["s2s-said", "what it does."], ["s2s-silent"], ["s2s-spread"],
    ]  # fmt: skip


@pytest.mark.usefixtures("_commands")
@pytest.mark.parametrize("name", ["said", "s2s-said"])
def test_a_command_is_run_with_the_arguments_behind_its_name(name: str) -> None:
    assert main([name, "a=1", "--help"]) == ["s2s-said", "a=1", "--help"]


@pytest.mark.usefixtures("_commands")
@pytest.mark.parametrize(
    ("name", "hint"), [("siad", "Did you mean 'said'?"), ("xyz", "Known: gone, plain, said, silent, spread.")]
)
def test_what_is_no_command_is_refused(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert capsys.readouterr().err == f"s2s: error: no command '{name}'. {hint}\n"


def test_what_is_installed_is_listed_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "s2s-generate    outputs for inputs, in their order." in capsys.readouterr().out
    assert main(["plugins", "show", "search=beam"]) == 0
    assert capsys.readouterr().out.startswith("search.name = beam")
    assert main(["trian"]) == 2
    assert "Did you mean 'train'?" in capsys.readouterr().err


def test_a_reader_that_wants_no_more_of_the_list_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "s2s"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
