"""Completion: the words of each command, and how bash completes them."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import distribution
from typing import TYPE_CHECKING

import pytest

from s2s.cli.completion.command import main
from s2s.cli.completion.scripts import SCRIPTS
from s2s.cli.completion.words import words_of_commands
from s2s.compose import flatten
from s2s.compose.options import options_of
from s2s.config import Config
from s2s.plugin import load_plugins
from s2s.registry import GROUPS

if TYPE_CHECKING:
    from pathlib import Path

REGISTRY = load_plugins().registry
WORDS = words_of_commands(REGISTRY)
BREAKS = " \t\n\"'><=;|&(:"
"""COMP_WORDBREAKS as bash sets it"""


def complete(typed: str, folder: Path, breaks: str = BREAKS) -> list[str]:
    """What bash offers after `typed`, in the working directory `folder`."""
    call = 'COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$2; _s2s "${1%% *}"; printf "%s\\n" "${COMPREPLY[@]}"'
    script = f"{SCRIPTS['bash'](WORDS)}\n{call}"
    command = ["bash", "-c", script, "bash", typed, breaks]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout.split()


def test_every_command_has_words() -> None:
    points = distribution("s2s-toolkit").entry_points
    assert {point.name for point in points if point.group == "console_scripts"} == WORDS.keys()


def test_every_option_and_every_name_can_be_completed() -> None:
    words = WORDS["s2s-train"]
    keys = {word.partition("=")[0] for word in words}
    assert {o.key for o in options_of(Config) if not o.key.endswith(".name")} <= keys
    for group in GROUPS.keys() & {key.partition(".")[0] for key in flatten(Config())}:
        assert {f"{group}={name}" for name in REGISTRY.names(group)} <= set(words)
    assert "arch.n_heads=" in words
    assert {"train.precision=bf16", "arch.gated=true"} <= set(words)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("s2s-train task=transl", ["translation", "translation_tiny"]),
        ("s2s-train task=translation train.prof", ["train.profile=false", "train.profile=true"]),
        ("s2s-train train.precision=b", ["bf16"]),
        ("s2s-generate --dry", ["--dry-run"]),
        ("s2s-train run=", ["last", "mine"]),
        ("s2s-generate input=so", ["source.en"]),
        ("s2s-completion f", ["fish"]),
    ],
)
def test_bash_offers(typed: str, offered: list[str], tmp_path: Path) -> None:
    for name in ("mine", "prepared"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "resolved.yaml").touch()
    (tmp_path / "source.en").touch()
    assert complete(typed, tmp_path) == offered


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_where_equals_is_no_break_the_whole_word_is_replaced(tmp_path: Path) -> None:
    assert complete("s2s-train train.precision=b", tmp_path, " \t\n") == ["train.precision=bf16"]


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("s2s-train task=transl", ["task=translation", "task=translation_tiny"]),
        ("s2s-generate run=m", ["run=mine"]),
        ("s2s-generate input=so", ["input=source.en"]),
        ("s2s-plugins sh", ["show"]),
    ],
)
def test_fish_offers(typed: str, offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "resolved.yaml").touch()
    (tmp_path / "source.en").touch()
    script = f"{SCRIPTS['fish'](WORDS)}\ncomplete -C '{typed}'"
    done = subprocess.run(["fish", "-N", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not done.stderr
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == offered


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_can_read_its_script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert all(command in script.read_text() for command in WORDS)
    if shutil.which(shell):
        subprocess.run([shell, "-n", script], check=True)


def test_a_shell_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tcsh"]) == 2
    assert "tcsh: expected one of bash, zsh, fish" in capsys.readouterr().err
