"""The functions in C, compiled once by the machine's own compiler and kept."""

from __future__ import annotations

__all__ = ["Library", "call", "library", "number"]

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from s2s.errors import ConfigError

SOURCES = sorted(Path(__file__).parent.glob("*.[ch]"))
FLAGS = ("-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
ARGUMENTS = {
    "s2s_top": [c_void_p, *[c_int64] * 3, *[c_void_p] * 2, c_int64, *[c_void_p] * 3],
    "s2s_attend": [*[c_void_p] * 3, *[c_int64] * 3, *[c_void_p] * 3, *[c_int64] * 7, c_float, c_void_p],
    "s2s_attend_source": [*[c_void_p] * 4, *[c_int64] * 6, c_float, c_void_p],
    "s2s_attend_padded": [*[c_void_p] * 7, *[c_int64] * 6, c_float, c_void_p],
    "s2s_add_norm": [*[c_void_p] * 2, *[c_int64] * 2, *[c_void_p] * 2, c_float, c_void_p],
    "s2s_quantized": [c_void_p, *[c_int64] * 4, *[c_void_p] * 2],
    "s2s_rescaled": [c_void_p, *[c_int64] * 2, *[c_void_p] * 2],
    "s2s_product": [c_void_p, c_void_p, c_int64, c_void_p],
    "s2s_decoder": [c_void_p, c_int64, c_void_p, c_void_p],
    "s2s_join": [*[c_void_p] * 4, *[c_int64] * 4, *[c_void_p] * 5],
    "s2s_merge_finished": [*[c_void_p] * 2, *[c_int64] * 5, *[c_void_p] * 3],
    "s2s_unfinished": [c_void_p, *[c_int64] * 4, c_void_p],
    "s2s_grow_paths": [*[c_void_p] * 3, *[c_int64] * 3],
    "s2s_select_paths": [*[c_void_p] * 2, *[c_int64] * 4, c_void_p],
    "s2s_over": [*[c_void_p] * 5, *[c_int64] * 4, c_void_p],
    "s2s_smoothed": [c_void_p, *[c_int64] * 3, *[c_void_p] * 2, *[c_float] * 2, *[c_void_p] * 3],
    "s2s_large_pages": [c_void_p, c_int64],
}
NUMBERS = ("s2s_columns", "s2s_has_int8")
"""Functions of nothing, which tell what was compiled"""


class Library(NamedTuple):
    """The compiled functions, or None and why not."""

    functions: ctypes.CDLL | None
    why: str


def call(name: str, *arguments: Any) -> None:
    """Call a function; tensors are given as the addresses of what they hold."""
    pointers = [a.data_ptr() if isinstance(a, Tensor) else a for a in arguments]
    getattr(library().functions, name)(*pointers)


def number(name: str) -> int:
    """What one of the `NUMBERS` is."""
    found: int = getattr(library().functions, name)()
    return found


@functools.cache
def library() -> Library:
    """Compiled or found, as S2S_KERNELS wants it."""
    wanted = os.environ.get("S2S_KERNELS", "auto")
    if wanted not in ("auto", "torch", "native"):
        raise ConfigError(f"S2S_KERNELS={wanted}: give auto, torch or native")
    if wanted == "torch":
        return Library(None, "torch kernels (S2S_KERNELS=torch)")
    try:
        functions = ctypes.CDLL(str(_compiled()))
    except (OSError, subprocess.SubprocessError) as error:
        if wanted == "native":
            raise ConfigError(f"S2S_KERNELS=native: {error}") from error
        return Library(None, f"torch kernels ({error})")
    for name, types in ARGUMENTS.items():
        getattr(functions, name).argtypes, getattr(functions, name).restype = types, None
    for name in NUMBERS:
        getattr(functions, name).restype = c_int64
    return Library(functions, "native kernels")


def _compiled() -> Path:
    """The library, from the user's cache unless source, compiler or processor are new."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise FileNotFoundError("no C compiler: neither CC nor cc names one")
    made_of = (*(source.read_bytes() for source in SOURCES), compiler.encode(), *map(str.encode, FLAGS), _processor())
    name = f"s2s-{hashlib.sha256(b'|'.join(made_of)).hexdigest()[:16]}.so"
    path = _cache() / name
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / name
            sources = [str(source) for source in SOURCES if source.suffix == ".c"]
            command = [compiler, *FLAGS, "-march=native", *sources, "-o", str(made), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode:
                raise OSError(f"{compiler} cannot compile {SOURCES[0].parent}: {done.stderr.strip()[:200]}")
            made.replace(path)  # at once, for other processes may be looking for it
    return path


def _cache() -> Path:
    """A folder that only this user writes to."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "s2s"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return root


def _processor() -> bytes:
    """What the compiler's choice of instructions depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode() + platform.machine().encode()
    return b"".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))
