"""Runs of a toy task in a folder of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.small_runs import letters_plugins

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.plugin import Plugins


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made under the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def plugins() -> Plugins:
    return letters_plugins()
