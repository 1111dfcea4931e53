"""docs/python.md and the notebook run from top to bottom, and give what a reader expects."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
NOTEBOOK = json.loads((ROOT / "examples" / "notebook" / "s2s.ipynb").read_text(encoding="utf-8"))


def run_all(blocks: list[str], name: str) -> dict[str, Any]:
    """The names that the blocks, run one after the other, leave behind."""
    names: dict[str, Any] = {"__name__": name}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{name}, block {number}", "exec"), names)
    return names


@pytest.mark.slow
def test_every_block_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_all(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL), "python.md")
    assert found["scored"].log_prob < 0
    assert {one.kind for one in found["found"].maps} == {"encoder", "decoder", "cross"}
    assert found["tree"].leaves() == ["The", "dog", "sees", "a", "cat", "."]


@pytest.mark.slow
def test_the_notebook_runs_and_its_model_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="the notebook draws with matplotlib, extra plots")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    cells = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    found = run_all(cells, "s2s.ipynb")
    first, last = found["updates"][0]["loss"], found["updates"][-1]["loss"]
    assert last < first / 2
    score = found["model"].score
    right, wrong = (score("The dog sleeps.", text).log_prob for text in ("Der Hund schläft.", "Die Frau liest."))
    assert right > wrong
    shown = found["model"].translate(["The old dog sees a cat.", "A woman reads the book."])
    assert shown == ["Der alte Hund sieht eine Katze.", "Eine Frau liest das Buch."]


def test_the_notebook_is_kept_without_outputs() -> None:
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])
