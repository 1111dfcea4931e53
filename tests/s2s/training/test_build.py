"""What is refused, and what is said, before the first update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small_runs import PLUGIN
from sorting_runs import train

from s2s.cli.train import main

if TYPE_CHECKING:
    from pathlib import Path

LEARNED = ["arch.positions=learned", "arch.max_positions=6", "train.steps=1"]  # sorting has up to 6 digits, and eos


@pytest.mark.parametrize(
    ("max_len", "says"),
    [
        (7, "data.max_len=7, but arch=transformer takes at most 6 tokens here; give data.max_len=6"),
        (6, "a sentence of the development set has 7 tokens, but arch=transformer takes at most 6"),
    ],
)
def test_a_sentence_that_the_model_cannot_take_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], max_len: int, says: str
) -> None:
    assert train(tmp_path, *LEARNED, f"data.max_len={max_len}") == 2
    out, err = capsys.readouterr()
    assert says in err
    assert "update 1" not in out


def test_a_missing_development_set_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [f"run={tmp_path / 'run'}", f"data.prepared={tmp_path / 'prepared'}"]
    assert main([f"plugins=[{PLUGIN}]", "task=letters", "arch=tiny", "train.steps=1", "train.tokens=9", *places]) == 0
    assert "no development set is given" in capsys.readouterr().out


def test_what_was_asked_for_is_shown_as_it_can_be_given_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, "train.steps=1", "valid.score=false", "train.clip=null") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("config"))
    assert {"arch=transformer_tiny", "valid.score=false", "train.clip=null", "search=greedy"} <= set(line.split("  "))
