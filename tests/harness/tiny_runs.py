"""The smallest translation run that the real commands make, and the commands called in this process."""

from __future__ import annotations

import random
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from s2s.cli import average, generate, plugins, prepare, score, train
from s2s_export import command as export
from s2s_import import command as import_command
from s2s_pcfg import command as pcfg
from s2s_serve import command as serve
from s2s_study import command as study

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WORDS = {"a": "ein", "dog": "hund", "cat": "kater", "old": "alter", "sees": "sieht", "the": "der", "eats": "isst"}
COMMANDS = {
    "s2s-train": train.main,
    "s2s-generate": generate.main,
    "s2s-prepare": prepare.main,
    "s2s-export": export.main,
    "s2s-import": import_command.main,
    "s2s-score": score.main,
    "s2s-average": average.main,
    "s2s-plugins": plugins.main,
    "s2s-pcfg": pcfg.main,
    "s2s-study": study.main,
    "s2s-serve": serve.main,
}
ALLOWED = (0, 2)
"""Exit codes of what a user can cause without signals, full disks and closed pipes."""

SMALL = [
    *("task=translation", "task.train=[a.en,a.de]", "task.vocab_size=40", "arch=transformer_tiny", "arch.d_model=8"),
    *("arch.d_ff=8", "arch.n_heads=2", "arch.n_encoder_layers=1", "arch.n_decoder_layers=1", "data.workers=1"),
    *("train.threads=1", "train.tokens=300", "checkpoint.every=2", "log.tensorboard=false"),
]


def write_corpus(folder: Path, n: int = 100) -> None:
    """`n` pairs of words as a.en and a.de."""
    draw = random.Random(0)
    src = [draw.choices(list(WORDS), k=draw.randint(1, 9)) for _ in range(n)]
    (folder / "a.en").write_text("".join(f"{' '.join(words)}\n" for words in src))
    (folder / "a.de").write_text("".join(f"{' '.join(WORDS[w] for w in words)}\n" for words in src))


def train_tiny(folder: Path, *arguments: str) -> None:
    """A corpus and a run "x" of four updates in `folder`."""
    write_corpus(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train.main([*SMALL, "train.steps=4", "run=x", "--quiet", *arguments]) == 0


def enter_copy(folder: Path, parent: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a folder with runs, to be changed, as the working directory."""
    copy = parent / "here"
    shutil.copytree(folder, copy, symlinks=True)
    monkeypatch.chdir(copy)
    return copy


def call(command: str, arguments: Sequence[str], capture: Any) -> tuple[int, str, str]:
    """Exit code, standard output and standard error; whatever happened, the law for commands is held.

    `capture` is pytest's capsys, or what it is for hypothesis: `Captured`.
    """
    capture.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [command, *arguments])
        code = COMMANDS[command](arguments)
    out, err = capture.readouterr()
    assert "Traceback" not in err, err
    assert "a bug in s2s" not in err, err
    assert code in ALLOWED, (code, err)
    complaints = [line for line in err.splitlines() if line.startswith(f"{command}: error: ")]
    assert len(complaints) == (code == 2), err
    assert code == 0 or err.splitlines()[-1] == complaints[0], err
    return code, out, err
