"""Where local plugins and the shipped presets are looked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from s2s import plugin
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("there", "added"), [([], 1), ([""], 0), (["."], 0), (["/elsewhere", "."], 0)], ids=str)
def test_a_module_is_looked_up_in_the_working_directory_which_is_added_once(
    there: list[str], added: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s2s_local_place.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "s2s_local_place", raising=False)
    before = [*(path.replace(".", str(tmp_path)) for path in there), "/nowhere", *sys.path]
    monkeypatch.setattr(sys, "path", before.copy())
    assert "s2s_local_place" in load_plugins(["s2s_local_place"]).loaded
    assert sys.path == [str(tmp_path)] * added + before


def test_presets_inside_the_package_come_before_those_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel has them inside, where the folder beside it may be of another package; a repository has them beside."""
    for name in ("s2s/configs", "configs"):
        (tmp_path / name / "arch").mkdir(parents=True)
        (tmp_path / name / "arch" / f"in_{name.replace('/', '_')}.yaml").write_text("name: transformer\n")
    monkeypatch.setattr(plugin, "__file__", str(tmp_path / "s2s" / "plugin.py"))
    assert [name for _, name in load_plugins().registry.presets if name.startswith("in_")] == ["in_s2s_configs"]
    (tmp_path / "s2s" / "configs").rename(tmp_path / "s2s" / "other")
    assert [name for _, name in load_plugins().registry.presets if name.startswith("in_")] == ["in_configs"]
