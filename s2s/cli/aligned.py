"""What s2s-score reads: outputs and references, files of as many lines."""

from __future__ import annotations

__all__ = ["read_aligned"]

import tempfile
from pathlib import Path
from typing import Any

from s2s.cli.inputs import standard_input
from s2s.data.alignment import parting
from s2s.data.lines import DROP, read_lines
from s2s.errors import ConfigError, DataError

STDIN = "standard input"


def read_aligned(hyp: Any, ref: Any) -> tuple[dict[str, list[str]], list[list[str]]]:
    """The lines of every system under its name, and [n_refs][n_sentences]; the options `hyp` and `ref`."""
    refs = {path: _lines(path) for path in _paths(ref, "ref")}
    systems = {STDIN if path == "-" else path: _lines(path) for path in _paths(hyp, "hyp")}
    (first, lines), *others = [*refs.items(), *systems.items()]
    for path, other in others:
        if len(other) != len(lines):
            raise DataError(_unequal(path, len(other), first, len(lines)))
    return systems, list(refs.values())


def _paths(value: Any, key: str) -> list[str]:
    """One file or several."""
    paths = value if isinstance(value, list) else [value]
    if not paths or not all(isinstance(path, str) and path and "\0" not in path for path in paths):
        raise ConfigError(f"{key}={value}: give a file, or several as {key}=[a.txt,b.txt]")
    if len(set(paths)) < len(paths):
        raise ConfigError(f"{key}={value}: a file stands there twice; give each once")
    if key == "ref" and "-" in paths:
        raise ConfigError("ref=-: only hyp can be standard input (-); give a file of references")
    return paths


def _lines(path: str) -> list[str]:
    """All lines of a file, plain or gzip, or of standard input (-)."""
    if path != "-":
        return _read(Path(path), path)
    with tempfile.TemporaryDirectory() as folder:  # a pipe cannot be rewound, which telling gzip needs
        spool = Path(folder) / "stdin"
        spool.write_bytes(standard_input().buffer.read())
        return _read(spool, STDIN)


def _read(path: Path, name: str) -> list[str]:
    try:
        lines = list(read_lines(path))
    except DataError as error:  # dropping a line, which preparation may do, would misalign all after it
        raise DataError(str(error).replace(str(path), name).replace(DROP, "repair the file")) from None
    if not lines:
        raise DataError(f"{name}: is empty; expected one sentence a line")
    return lines


def _unequal(path: str, n_lines: int, ref: str, n_ref: int) -> str:
    message = f"{path} has {n_lines:,} lines and {ref} has {n_ref:,}; they must be parallel, line by line"
    place = None if path == STDIN else parting(Path(path), Path(ref), n_lines, n_ref)
    return message if place is None else f"{message}. By their lengths they part near line {place:,}"
