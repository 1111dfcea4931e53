"""What a choice of a group comes from, and which settings of its options remain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.toy_plugins import toy_plugins
from s2s.compose import compose
from s2s.config import Config

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_preset_of_a_file_is_named_with_its_path_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arch").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "arch" / "own.yaml").write_text("name: wide\ndropout: 0.7\n")
    plugins = toy_plugins()
    plugins.registry.presets_in(tmp_path)
    for folder, shown in [(tmp_path, "arch/own.yaml"), (tmp_path / "elsewhere", f"{tmp_path}/arch/own.yaml")]:
        monkeypatch.chdir(folder)
        origins = compose(Config, ["task=copy", "arch=own"], plugins).origins
        assert origins["arch.dropout"] == f"preset arch=own ({shown})"
