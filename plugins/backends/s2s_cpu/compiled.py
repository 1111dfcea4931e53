"""The C sources as a shared library: from the wheel, or compiled once per user.

A wheel that was built where there is a compiler holds one library for each level of instructions, and the best that
runs here is used. Otherwise the library is compiled for this very processor, and loaded only if no other user can have
changed it. To be imported it needs only the standard library, since it also builds the libraries of a wheel.
"""

from __future__ import annotations

__all__ = [
    "LEVELS",
    "SHIPPED",
    "Level",
    "cache_warning",
    "compile_library",
    "compiled_library",
    "find_library",
    "shipped_library",
]

import hashlib
import os
import platform
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOURCES = sorted((Path(__file__).parent / "c").glob("*.[ch]"))
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
COMPILE_SECONDS = 600
"""Limit for the compiler, which takes 6 s of a core: on a machine with much other work, minutes"""
SHIPPED = Path(__file__).parent / "shipped"
"""Where a wheel has its libraries; they are trusted like the modules beside them"""


class Level(NamedTuple):
    """A set of instructions for which a wheel holds a library."""

    name: str
    needs: str
    """Their names in /proc/cpuinfo, in addition to those of the levels below"""
    flags: tuple[str, ...]
    """Compiler flags for them"""


# System V ABI, AMD64 Architecture Processor Supplement, table 3.1. Products of 8-bit integers need AVX2, and with VNNI
# are up to four times as fast. Those of bf16 are twice as fast with AVX512-BF16, which training in bf16 needs. AMX
# makes both faster for many rows.
LEVELS = {
    "x86_64": (
        Level("x86-64-v2", "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2", ("-march=x86-64-v2",)),
        Level("x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe", ("-march=x86-64-v3",)),
        Level("x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl", ("-march=x86-64-v4",)),
        Level("x86-64-v4-vnni", "avx512_vnni", ("-march=x86-64-v4", "-mavx512vnni")),
        Level("x86-64-v4-bf16", "avx512_bf16", ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16")),
        Level(
            "x86-64-v4-amx",
            "amx_tile amx_int8 amx_bf16",
            ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
        ),
    ),
    "aarch64": (Level("armv8-a", "asimd", ("-march=armv8-a",)),),
}
"""For each machine type, the lowest first"""


@contextmanager
def compiled_library(*, recompile: bool, shipped: bool = True) -> Iterator[tuple[Path, str]]:
    """The library's path, to be loaded inside the block, and a warning or "".

    It comes from the wheel, unless `recompile` or not `shipped`; otherwise from the user's cache, where it is compiled
    first if it is missing or damaged, or if `recompile`. Where another user could write to the cache, it is compiled
    into a private folder that is deleted after the block.
    """
    if shipped and not recompile and (shipped_path := shipped_library(SHIPPED, instructions())):
        yield shipped_path, ""
        return
    try:
        path, usable, warning = _cached(recompile=recompile)
    except OSError as error:
        import tempfile  # which a start without compiling does without

        with tempfile.TemporaryDirectory(prefix="s2s-") as folder_name:
            yield compile_library(Path(folder_name) / _name()), cache_warning(error)
        return
    yield (path if usable else compile_library(path)), warning


def _cached(*, recompile: bool) -> tuple[Path, bool, str]:
    """The library's path in the cache, whether it can be used as it is, and a warning or "".

    Raises OSError if it cannot be used, and no other can be put there.
    """
    from s2s.io import private_cache  # not there when a wheel is built

    path, warning = private_cache() / _name(), ""
    try:
        usable = find_library(path) and not recompile
    except PermissionError as error:
        usable, warning = False, f"{error}; compiled again"
    if not usable and not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path.parent} cannot be written to")
    return path, usable, warning


def cache_warning(error: OSError) -> str:
    """What follows from a cache that cannot be used, and what to do, in a line."""
    reason = f"{error.filename} ({error.strerror})" if error.filename and error.strerror else str(error)
    return (
        f"each command starts more slowly, since nothing can be kept in the cache: {reason}; make its folder writable "
        "for you alone, or name another one with XDG_CACHE_HOME"
    )


def shipped_library(folder: Path, has: frozenset[str]) -> Path | None:
    """The library of the highest level such that the processor has its instructions and those of all levels below.

    None if the wheel has none for it; a library whose checksum does not match is skipped.
    """
    best = None
    for level in LEVELS.get(platform.machine(), ()):
        if not has.issuperset(level.needs.split()):
            break
        path = folder / f"{level.name}.so"
        if path.is_file() and _digest_file(path).is_file() and _digest(path) == _digest_file(path).read_text():
            best = path
    return best


def instructions() -> frozenset[str]:
    """The instruction sets that /proc/cpuinfo lists for this processor; none where there is no such file."""
    words = (line.partition(b":")[2].split() for line in _cpuinfo() if line.startswith((b"flags", b"Features")))
    return frozenset(word.decode() for word in next(words, []))


def find_library(path: Path) -> bool:
    """Whether a library exists and matches its checksum.

    Raises PermissionError if it or its folder is not this user's alone.
    """
    from s2s.io import check_trusted

    try:
        check_trusted(path.parent)
        for file in (path, _digest_file(path)):
            check_trusted(file)
        return _digest(path) == _digest_file(path).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return False


def compile_library(path: Path, march: Sequence[str] = ("-march=native",)) -> Path:
    """Compile the sources into `path`, atomically, since other processes may be loading it.

    Raises OSError if there is no compiler, or if it fails or takes too long.
    """
    import subprocess
    import tempfile

    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise FileNotFoundError("no C compiler: neither CC nor cc names one")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        library = Path(folder) / path.name
        sources = [str(source) for source in SOURCES if source.suffix == ".c"]
        command = [compiler, *FLAGS, *march, *sources, "-o", str(library), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise OSError(str(error)) from error
        if done.returncode:
            raise OSError(f"{compiler} cannot compile {SOURCES[0].parent}: {done.stderr.strip()[:200]}")
        digest = _digest_file(library)
        digest.write_text(_digest(library), encoding="ascii")
        for file, final in ((digest, _digest_file(path)), (library, path)):
            file.chmod(0o600 if file is digest else 0o700)
            file.replace(final)
    return path


def _name() -> str:
    """A file name for sources, flags, processor and CC; not for the compiler itself, which may be gone by now."""
    compiler = os.environ.get("CC", "cc").encode()
    made_of = (*(source.read_bytes() for source in SOURCES), compiler, *map(str.encode, FLAGS), _processor())
    return f"s2s-{hashlib.sha256(b'|'.join(made_of)).hexdigest()[:16]}.so"


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _processor() -> bytes:
    """What the compiler's choice of instructions depends on."""
    lines = {line for line in _cpuinfo() if line.startswith((b"flags", b"Features", b"model name"))}
    return b"".join(sorted(lines)) or platform.processor().encode() + platform.machine().encode()


def _cpuinfo() -> list[bytes]:
    try:
        return Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return []
