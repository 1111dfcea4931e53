"""What a wheel holds compiled: a library for each level of the processor, of which the best that runs is taken."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from folders import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytest.importorskip("hatchling")
sys.path.insert(0, str(ROOT))
import hatch_build

COMPILED: ModuleType = hatch_build.load_compiled(ROOT)
X86 = COMPILED.LEVELS["x86_64"]
V2, V3, V4, VNNI = (frozenset(level.needs.split()) for level in X86)
OTHER = {"fpu", "avx_vnni"}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel's libraries, whose contents are their names."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for level in X86:
        path = tmp_path / f"{level.name}.so"
        path.write_text(level.name)
        path.with_suffix(".sha256").write_text(COMPILED._digest(path))
    return tmp_path


@pytest.mark.parametrize(
    ("has", "name"),
    [
        (frozenset(OTHER), None),
        (V2 | OTHER, "x86-64-v2"),
        (V2 | V3 - {"fma"}, "x86-64-v2"),
        (V2 | V3 | OTHER, "x86-64-v3"),
        (V3 | V4, None),
        (V2 | V3 | V4, "x86-64-v4"),
        (V2 | V3 | V4 | VNNI, "x86-64-v4-vnni"),
        (V2 | V3 | VNNI, "x86-64-v3"),
    ],
)
def test_the_highest_level_is_taken_whose_instructions_are_all_there(
    shipped: Path, has: frozenset[str], name: str | None
) -> None:
    found = COMPILED.shipped_library(shipped, has)
    assert (found and found.stem) == name


@pytest.mark.parametrize("damage", ["cut", "no digest"])
def test_a_damaged_library_is_passed_over(shipped: Path, damage: str) -> None:
    if damage == "cut":
        (shipped / "x86-64-v3.so").write_text("x86-64")
    else:
        (shipped / "x86-64-v3.sha256").unlink()
    assert COMPILED.shipped_library(shipped, V2 | V3).stem == "x86-64-v2"


def test_a_wheel_without_libraries_and_another_machine_have_none(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert COMPILED.shipped_library(tmp_path / "nowhere", V2) is None
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert COMPILED.shipped_library(shipped, V2) is None


def test_a_shipped_library_is_used_without_a_compiler(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMPILED, "SHIPPED", shipped)
    monkeypatch.setattr(COMPILED, "instructions", lambda: V2 | V3)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(shipped / "cache"))
    with COMPILED.compiled_library(anew=False) as (path, warning):
        assert (path, warning) == (shipped / "x86-64-v3.so", "")
    for options in ({"anew": True}, {"anew": False, "shipped": False}):
        with pytest.raises(FileNotFoundError, match="no C compiler"), COMPILED.compiled_library(**options):
            pass


def test_the_instructions_are_those_that_the_system_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: avx512f\nflags\t\t: fpu sse4_2 avx2\nflags\t\t: fpu sse4_2 avx2\n")
    monkeypatch.setattr(COMPILED, "Path", lambda _: tmp_path / "cpuinfo")
    assert COMPILED.instructions() == {"fpu", "sse4_2", "avx2"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None or platform.system() != "Linux", reason="needs a C compiler")
def test_a_wheel_has_a_library_for_each_level_and_says_for_which_machine(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stem.endswith(f"-py3-none-linux_{platform.machine()}")
    with zipfile.ZipFile(wheel) as file:
        inside = [name for name in file.namelist() if "/shipped/" in name]
        file.extractall(tmp_path, inside)
    levels = COMPILED.LEVELS[platform.machine()]
    assert sorted(name.rpartition("/")[2] for name in inside) == sorted(
        f"{level.name}.{suffix}" for level in levels for suffix in ("so", "sha256")
    )
    best = COMPILED.shipped_library(next(tmp_path.rglob("shipped")), COMPILED.instructions())
    assert ctypes.CDLL(str(best)).s2s_panel_width() in (8, 16, 64)
