"""The compiled libraries of a wheel: one for each level of the processor, of which the best that runs is used."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.folders import ROOT

if TYPE_CHECKING:
    from types import ModuleType

pytest.importorskip("hatchling")
sys.path.insert(0, str(ROOT))
import hatch_build

COMPILED: ModuleType = hatch_build.load_compiled(ROOT)
X86 = COMPILED.LEVELS["x86_64"]
V2, V3, V4, VNNI, BF16, AMX = (frozenset(level.needs.split()) for level in X86)
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
        (V2 | V3 | V4 | VNNI | BF16, "x86-64-v4-bf16"),
        (V2 | V3 | V4 | VNNI | BF16 | AMX - {"amx_bf16"}, "x86-64-v4-bf16"),
        (V2 | V3 | V4 | VNNI | BF16 | AMX, "x86-64-v4-amx"),
        (V2 | V3 | V4 | VNNI | AMX, "x86-64-v4-vnni"),
        (V2 | V3 | V4 | AMX, "x86-64-v4"),
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
    with COMPILED.compiled_library(recompile=False) as (path, warning):
        assert (path, warning) == (shipped / "x86-64-v3.so", "")
    for options in ({"recompile": True}, {"recompile": False, "shipped": False}):
        with pytest.raises(FileNotFoundError, match="no C compiler"), COMPILED.compiled_library(**options):
            pass


def test_the_instructions_are_those_that_the_system_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: avx512f\nflags\t\t: fpu sse4_2 avx2\nflags\t\t: fpu sse4_2 avx2\n")
    monkeypatch.setattr(COMPILED, "Path", lambda _: tmp_path / "cpuinfo")
    assert COMPILED.instructions() == {"fpu", "sse4_2", "avx2"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that has the sources in C alone, and a compiler that only writes a file."""
    here = COMPILED.SHIPPED.parent
    shutil.copytree(here, tmp_path / here.relative_to(ROOT))
    fake = tmp_path / "cc"
    fake.write_text('#!/bin/sh\nfor word; do [ "$last" = -o ] && echo compiled > "$word"; last=$word; done\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return tmp_path


def built(project: Path, version: str = "standard") -> dict[str, Any]:
    """What the hook says of a wheel."""
    data: dict[str, Any] = {"force_include": {}}
    hook = hatch_build.CompiledFunctions(str(project), {}, None, None, str(project), "wheel")  # type: ignore[arg-type]
    hook.initialize(version, data)
    return data


def test_a_wheel_for_a_machine_has_a_library_and_a_digest_for_each_of_its_levels(project: Path) -> None:
    data = built(project)
    names = {Path(inside).name for inside in data["force_include"].values()}
    assert names == {f"{level.name}.{suffix}" for level in X86 for suffix in ("so", "sha256")}
    assert {Path(inside).parent.name for inside in data["force_include"].values()} == {"shipped"}
    assert all(Path(file).is_file() for file in data["force_include"])
    assert not data["pure_python"]
    assert data["tag"].startswith("py3-none-linux_")


@pytest.mark.parametrize(
    "reason", ["no compiler", "an old compiler", "another system", "asked for", "editable", "riscv64"]
)
def test_otherwise_it_is_pure(project: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    if reason == "no compiler":
        monkeypatch.setenv("CC", "no-such-compiler")
    elif reason == "an old compiler":
        (project / "cc").write_text('#!/bin/sh\ncase "$*" in *v4*) exit 1;; esac\n' + (project / "cc").read_text())
    elif reason == "another system":
        monkeypatch.setattr(sys, "platform", "darwin")
    elif reason == "asked for":
        monkeypatch.setenv("S2S_PURE_WHEEL", "1")
    elif reason == "riscv64":
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert built(project, reason) == {"force_include": {}}


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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and a C compiler")
def test_the_libraries_of_a_wheel_run_where_its_tag_says(tmp_path: Path) -> None:
    """auditwheel reads from them which C library they need."""
    pytest.importorskip("auditwheel")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    build = ["build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, "-m", *build], check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    repair = ["auditwheel", "repair", "--wheel-dir", str(tmp_path / "repaired"), str(built)]
    subprocess.run([sys.executable, "-m", *repair], check=True, capture_output=True, env=environment)
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    assert "-manylinux_2_" in repaired.name
    names = [file for file in zipfile.ZipFile(repaired).namelist() if file.endswith(".so")]
    assert len(names) == len(COMPILED.LEVELS[platform.machine()])
