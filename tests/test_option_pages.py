"""docs/options is what the registry says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import option_pages

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert option_pages.main(check=True) == 0, capsys.readouterr().out


def test_a_stale_page_is_found_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_pages, "FOLDER", tmp_path)
    assert option_pages.main(check=False) == 0
    page = tmp_path / "s2s-train.md"
    text = page.read_text(encoding="utf-8")
    assert "| `train.clip` |" in text
    page.write_text(text.replace("train.clip", "train.cilp"), encoding="utf-8")
    (tmp_path / "s2s-gone.md").touch()
    assert option_pages.main(check=True) == 1
    assert option_pages.main(check=False) == 0
    assert page.read_text(encoding="utf-8") == text
    assert not (tmp_path / "s2s-gone.md").exists()
