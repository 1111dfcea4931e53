"""The C sources as a shared library: compiled once per user, and loaded only if nobody else can have changed it."""

from __future__ import annotations

__all__ = ["UntrustedError", "compile_library", "compiled_library", "find_library"]

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = sorted((Path(__file__).parent / "c").glob("*.[ch]"))
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")


class UntrustedError(OSError):
    """A file or folder that another user owns or may write to."""


@contextmanager
def compiled_library(*, anew: bool) -> Iterator[tuple[Path, str]]:
    """The library's path, to be loaded inside the block, and a warning or "".

    It comes from the user's cache, where it is compiled first if it is missing or damaged, or `anew`. Where another
    user could write to the cache, it is compiled into a private folder that is deleted after the block.
    """
    try:
        folder, warning = private_cache(), ""
    except OSError as error:
        with tempfile.TemporaryDirectory(prefix="s2s-") as own:
            yield compile_library(Path(own) / _name()), f"{error}; compiled for this process alone"
        return
    path = folder / _name()
    try:
        usable = find_library(path) and not anew
    except UntrustedError as error:
        usable, warning = False, f"{error}; compiled again"
    yield (path if usable else compile_library(path)), warning


def find_library(path: Path) -> bool:
    """Whether a library is there with the contents that it was written with.

    Raises UntrustedError if it or its folder is not this user's alone.
    """
    try:
        _refuse_untrusted(path.parent)
        for file in (path, _digest_file(path)):
            _refuse_untrusted(file)
        return _digest(path) == _digest_file(path).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return False


def compile_library(path: Path) -> Path:
    """Compile the sources into `path`, atomically, for other processes may be loading it."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise FileNotFoundError("no C compiler: neither CC nor cc names one")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        sources = [str(source) for source in SOURCES if source.suffix == ".c"]
        command = [compiler, *FLAGS, "-march=native", *sources, "-o", str(made), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise OSError(f"{compiler} cannot compile {SOURCES[0].parent}: {done.stderr.strip()[:200]}")
        digest = _digest_file(made)
        digest.write_text(_digest(made), encoding="ascii")
        for file, final in ((digest, _digest_file(path)), (made, path)):
            file.chmod(0o600 if file is digest else 0o700)
            file.replace(final)
    return path


def private_cache() -> Path:
    """The folder s2s in the user's cache, which only this user may write to.

    Raises UntrustedError if it exists otherwise, OSError if it cannot be made.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "s2s"
    except RuntimeError:
        raise OSError("this user has no home directory; give XDG_CACHE_HOME") from None
    try:
        folder.mkdir(mode=0o700, parents=True)
        folder.chmod(0o700)  # mkdir's mode is subject to the umask
    except FileExistsError:
        _refuse_untrusted(folder)
    return folder


def _refuse_untrusted(path: Path) -> None:
    """Raise UntrustedError if another user owns a file or folder, or may write to it."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise UntrustedError(f"{path} is a symbolic link")
    if found.st_uid != os.geteuid():
        raise UntrustedError(f"{path} belongs to another user")
    if found.st_mode & 0o022:
        raise UntrustedError(f"{path} can be written to by others (chmod go-w {path})")


def _name() -> str:
    """One for each set of sources, flags, processor and CC; not of the compiler itself, which may be gone by now."""
    compiler = os.environ.get("CC", "cc").encode()
    made_of = (*(source.read_bytes() for source in SOURCES), compiler, *map(str.encode, FLAGS), _processor())
    return f"s2s-{hashlib.sha256(b'|'.join(made_of)).hexdigest()[:16]}.so"


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _processor() -> bytes:
    """What the compiler's choice of instructions depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode() + platform.machine().encode()
    return b"".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))
