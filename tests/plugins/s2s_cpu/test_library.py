"""The compiled library: what is never loaded, what is compiled again, and what happens where nothing compiles."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from s2s.backend.operators import TreePaths
from s2s.errors import ConfigError
from s2s.nn.attention import sdpa
from s2s_cpu import compiled, library, structs
from s2s_cpu.attention import tree_attention
from s2s_cpu.beam_search import top_k_log_probs
from s2s_cpu.library import native_library

needs_compiler = pytest.mark.skipif(native_library().functions is None, reason=native_library().reason)
IMPORT = (
    "import s2s; from s2s.backend.operators import OPERATORS; from s2s.backend.operators.operator import description; "
    "s2s.load_plugins(); said = description(); "
)
REPORT = IMPORT + "print(len(OPERATORS['top_k'].implementations) == 1, said)"


def run(tmp_path: Path, code: str = REPORT, **env: str) -> str:
    """What a new process prints, with a cache of its own."""
    own = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    code = f"import {compiled.__name__} as c; c.SHIPPED = c.Path('/nowhere'); {code}"  # also where a wheel is tested
    done = subprocess.run([sys.executable, "-c", code], env={**own, **env}, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this process, and libraries that cost no compiler's time: a copy of the one that there is."""
    with compiled.compiled_library(recompile=False) as (path, _):
        good = path.read_bytes()

    def copy(path: Path) -> Path:
        path.unlink(missing_ok=True)  # it may be loaded
        path.write_bytes(good)
        path.chmod(0o700)
        compiled._digest_file(path).write_text(compiled._digest(path))
        compiled._digest_file(path).chmod(0o600)
        return path

    monkeypatch.setattr(compiled, "SHIPPED", tmp_path / "nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "compile_library", copy)
    return tmp_path / "s2s"


def opened() -> tuple[Path, str]:
    with compiled.compiled_library(recompile=False) as (path, warning):
        assert path.exists()
    return path, warning


@needs_compiler
def test_the_cache_is_this_users_alone_whatever_the_umask(cache: Path) -> None:
    before = os.umask(0o000)
    try:
        path, warning = opened()
    finally:
        os.umask(before)
    assert not warning
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert path.parent == cache
    assert opened() == (path, "")


@needs_compiler
@pytest.mark.slow
def test_compiled_files_are_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    assert run(tmp_path, "import os; os.umask(0); " + REPORT) == "True native kernels\n"
    modes = {p.suffix or "folder": stat.S_IMODE(p.stat().st_mode) for p in [tmp_path / "s2s", *tmp_path.glob("s2s/*")]}
    assert modes == {"folder": 0o700, ".so": 0o700, ".sha256": 0o600}


@needs_compiler
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_cache_that_others_may_write_to_is_not_used(cache: Path, mode: int) -> None:
    planted, _ = opened()
    cache.chmod(mode)
    with compiled.compiled_library(recompile=False) as (path, warning):
        assert path.parent != cache
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "can be written to by others" in warning
    assert "\n" not in warning
    assert not path.exists()
    assert planted.exists()


@needs_compiler
def test_a_link_for_a_cache_is_not_used(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache.symlink_to(tmp_path / "elsewhere")
    with compiled.compiled_library(recompile=False) as (path, warning):
        assert cache.resolve() not in path.parents
    assert "is a symbolic link" in warning


@needs_compiler
@pytest.mark.parametrize("place", ["file/cache", "file", "cache"])
def test_a_cache_that_cannot_be_written_to_is_named_with_what_to_do(
    place: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that exists, and lacks the library."""
    (tmp_path / "file").write_text("")
    (tmp_path / "cache" / "s2s").mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with compiled.compiled_library(recompile=False) as (path, warning):
        assert path.is_file()
        assert tmp_path not in path.parents
    assert not path.exists()
    begin, _, rest = warning.partition(f": {tmp_path / place}")
    assert begin == "each command starts more slowly, since nothing can be kept in the cache"
    assert rest.endswith("; make its folder writable for you alone, or name another one with XDG_CACHE_HOME")
    assert "\n" not in warning


@needs_compiler
@pytest.mark.parametrize("suffix", [".so", ".sha256"])
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_file_that_others_may_write_to_is_compiled_again(cache: Path, suffix: str, mode: int) -> None:
    path, _ = opened()
    path.with_suffix(suffix).chmod(mode)
    again, warning = opened()
    assert again == path
    assert "can be written to by others" in warning
    assert opened() == (path, "")
    assert cache == path.parent


@needs_compiler
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_not_loaded(cache: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = opened()
    other = cache if what == "folder" else path
    lstat = Path.lstat

    def as_if(self: Path) -> os.stat_result:
        found = list(lstat(self))
        found[stat.ST_UID] += self == other and not (what == "file" and rebuilt)
        return os.stat_result(found)

    rebuilt: list[int] = []
    compile_library = compiled.compile_library
    monkeypatch.setattr(compiled, "compile_library", lambda path: (rebuilt.append(1), compile_library(path))[1])
    monkeypatch.setattr(Path, "lstat", as_if)
    with compiled.compiled_library(recompile=False) as (found, warning):
        assert (found == path) == (what == "file")
    assert rebuilt == [1]
    assert "belongs to another user" in warning


@needs_compiler
@pytest.mark.parametrize("n", [0, 5000, -1, None])
def test_a_damaged_library_is_compiled_again(cache: Path, n: int | None) -> None:
    """Cut after n bytes, or with a bit that has another value."""
    path, _ = opened()
    good = path.read_bytes()
    path.write_bytes(good[:n] if n is not None else good[:99] + bytes([good[99] ^ 1]) + good[100:])
    assert not compiled.find_library(path)
    assert opened() == (path, "")
    assert path.read_bytes() == good
    assert cache == path.parent


@needs_compiler
@pytest.mark.slow
def test_a_truncated_library_neither_ends_the_process_nor_is_used(tmp_path: Path) -> None:
    assert run(tmp_path) == "True native kernels\n"
    (path,) = tmp_path.glob("s2s/*.so")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    nothing = {"PATH": str(tmp_path)}
    assert run(tmp_path, **nothing).startswith("False torch kernels (no C compiler")
    assert run(tmp_path) == "True native kernels\n"
    assert run(tmp_path, **nothing) == "True native kernels\n", "what is compiled needs no compiler any more"


@needs_compiler
@pytest.mark.parametrize("how", ["a function is missing", "a structure has another size"])
def test_a_library_that_does_not_fit_is_compiled_again_and_then_given_up(
    cache: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("S2S_KERNELS", raising=False)
    made: list[Path] = []
    compile_library = compiled.compile_library
    monkeypatch.setattr(compiled, "compile_library", lambda path: (made.append(path), compile_library(path))[1])
    if how == "a function is missing":
        monkeypatch.setitem(library.SIGNATURES, "s2s_of_tomorrow", [])
    else:

        class Longer(structs.StepStruct):
            _fields_ = (("more", ctypes.c_int64),)

        monkeypatch.setattr(library, "STRUCTS", (*structs.STRUCTS[:3], Longer))
    with pytest.raises(OSError, match=r"does not fit: .*(s2s_of_tomorrow|Longer has \d+ bytes here and \d+ there)"):
        library._load()
    assert len(made) == 2
    found = library.native_library.__wrapped__()
    assert found.functions is None
    assert found.reason.startswith("torch kernels (the compiled library does not fit")
    monkeypatch.setenv("S2S_KERNELS", "native")
    with pytest.raises(ConfigError, match="S2S_KERNELS=native: the compiled library does not fit"):
        library.native_library.__wrapped__()
    assert cache.exists()


@needs_compiler
def test_structures_have_the_sizes_that_were_compiled() -> None:
    functions = native_library().functions
    assert functions is not None
    sizes = [functions.s2s_struct_size(i) for i in range(len(structs.STRUCTS) + 1)]
    assert sizes == [*map(ctypes.sizeof, structs.STRUCTS), -1]


@needs_compiler
def test_functions_can_be_called_without_torch() -> None:
    """With numbers and arrays of ctypes."""
    code = (
        "import sys, s2s_cpu.stream; from ctypes import c_float, c_int64; from s2s_cpu.library import call\n"
        "x, values, ids = (c_float * 3)(1, 3, 2), (c_float * 2)(), (c_int64 * 2)()\n"
        "call('s2s_top_k', x, 1, 3, 2, None, None, 0, None, 1, 0, None, values, ids)\n"
        "print(*values, *ids, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "3.0 2.0 1 2 False\n", done.stderr


@needs_compiler
def test_too_little_memory_is_an_error_and_no_crash() -> None:
    """Of the sizes that C is given, one that no machine has memory for."""
    with pytest.raises(MemoryError, match="s2s_top_k"):
        library.call(
            "s2s_top_k", torch.empty(0), 0, 0, 2**55, None, None, 0, None, 1, 0, None, torch.empty(0), torch.empty(0)
        )


@needs_compiler
def test_a_vocabulary_larger_than_the_stack_is_no_matter() -> None:
    """A row of 3,000,000 tokens: 12 MB, where stacks have 8."""
    x, anything = torch.zeros(1, 3_000_000), torch.ones(1, 3_000_000, dtype=torch.bool)
    x[0, -1] = 1
    assert top_k_log_probs(x, 1, torch.tensor([0]), anything)[1][0, 0] == 2_999_999


@needs_compiler
def test_heads_larger_than_the_stack_are_no_matter() -> None:
    """Keys and values of 4 MB each."""
    q, k, v = torch.ones(3, 1, 1, 1, 2**21)
    nodes, zero, one = torch.zeros(1, 1, 2**22), torch.tensor([[[0]]]), torch.tensor([1])
    found = tree_attention(q, k, v, nodes, TreePaths(zero, one, one, 1, 1), sdpa, 0.0)
    assert torch.equal(found, v)


def test_nothing_sized_by_the_caller_lies_on_the_stack() -> None:
    """The compiler's own check: there is no variable-length array, and alloca is not called."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    sources = [str(source) for source in compiled.SOURCES if source.suffix == ".c"]
    command = [compiler, "-fsyntax-only", "-w", "-Werror=vla", *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not any(b"alloca(" in source.read_bytes() for source in compiled.SOURCES)


@pytest.mark.slow
def test_without_a_compiler_the_references_are_used_and_the_reason_is_given(tmp_path: Path) -> None:
    assert run(tmp_path, CC="no-such-compiler").startswith("False torch kernels (no C compiler")
    assert run(tmp_path, S2S_KERNELS="torch") == "False torch kernels (S2S_KERNELS=torch)\n"
    assert "S2S_KERNELS=native: no C compiler" in run(tmp_path, CC="no-such-compiler", S2S_KERNELS="native")
    assert "S2S_KERNELS=fast: give auto, torch, native or compile" in run(tmp_path, S2S_KERNELS="fast")
