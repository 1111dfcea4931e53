"""Published models, tuned: what their runs do not say is chosen for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.published import LINES, SIZES, opus_mt
from s2s.cli.train import main as train
from s2s.compose import compose
from s2s.config import Config
from s2s.plugin import load_plugins
from s2s_import.command import main as import_model

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = load_plugins()
TUNED = ["train.init_from=opus", "task.train=[train.src,train.tgt]", "task.valid=[train.src,train.tgt]", "run=tuned"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an imported model, so that nothing is cached, and text."""
    monkeypatch.chdir(tmp_path)
    opus_mt(tmp_path / "model")
    assert import_model(["model=model", "run=opus", "--quiet"]) == 0
    for side in ("src", "tgt"):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in LINES[side][:24]))
    return tmp_path


def test_the_rate_is_a_quarter_of_the_highest_of_the_papers_schedule() -> None:
    """That of its own schedule is not known."""
    schedule = compose(Config, TUNED, PLUGINS).config.schedule
    highest = SIZES["d_model"] ** -0.5 * 4000**-0.5  # section 5.3
    assert schedule.lr == pytest.approx(highest / 4, rel=0.01)  # type: ignore[attr-defined]


def test_batch_and_first_screen_are_those_of_a_small_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert train([*TUNED, "train.steps=2", "train.check=false", "valid.score=false"]) == 0
    screen = capsys.readouterr().out
    assert "1,024 tokens a side, 2 updates" in screen
    assert "since its text cannot be mixed in: the text of a published model is not here" in screen
    assert "vocabulary stand fewer than" not in screen
