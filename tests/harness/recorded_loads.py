"""Which commands and requests load a model, with a cache of their own."""

from __future__ import annotations

__all__ = ["copy_with_empty_cache", "record_loads", "use_empty_cache"]

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.generation import build
from s2s.io import private_cache
from s2s_cpu.library import native_library

if TYPE_CHECKING:
    import pytest


def copy_with_empty_cache(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a folder with runs, in which the test works, with `use_empty_cache`."""
    copy = tmp_path / "w"
    shutil.copytree(folder, copy, symlinks=True)
    use_empty_cache(tmp_path, monkeypatch)
    monkeypatch.chdir(copy)
    return copy


def use_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is empty but for the functions in C, which take half a minute to compile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if functions := native_library().functions:
        for compiled in Path(functions._name).parent.glob(f"{Path(functions._name).stem}.*"):
            shutil.copy2(compiled, private_cache())


def record_loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run of each model that is loaded from now on."""
    calls, load = list[str](), build.load_for_decoding

    def recorded(config: Any, plugins: Any) -> Any:
        calls.append(config.run)
        return load(config, plugins)

    monkeypatch.setattr(build, "load_for_decoding", recorded)
    return calls
