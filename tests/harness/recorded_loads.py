"""Which commands and requests load a model, with a cache of their own."""

from __future__ import annotations

__all__ = ["copy_with_empty_cache", "record_loads"]

import shutil
from typing import TYPE_CHECKING, Any

from s2s.generation import build

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def copy_with_empty_cache(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a folder with runs, in which the test works, and a cache that is empty."""
    copy = tmp_path / "w"
    shutil.copytree(folder, copy, symlinks=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(copy)
    return copy


def record_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run of each model that is loaded from now on."""
    calls, load = list[str](), build.load_for_decoding

    def recorded(config: Any, plugins: Any) -> Any:
        calls.append(config.run)
        return load(config, plugins)

    monkeypatch.setattr(build, "load_for_decoding", recorded)
    return calls
