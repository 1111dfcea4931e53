"""The input files of s2s-score: inputs, outputs and references, all with the same number of lines."""

from __future__ import annotations

__all__ = ["names", "read_aligned", "stream_aligned"]

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.data import DROP_HINT, read_lines
from s2s.data.misalignment import first_misaligned_line
from s2s.errors import ConfigError, DataError
from s2s.generation import standard_input
from s2s.generation.files.streams import is_stream
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STDIN = "standard input"


def read_aligned(hyp: Any, ref: Any, check: Callable[[str], Any] = str) -> tuple[dict[str, list[str]], list[list[str]]]:
    """System -> its lines, and the references [n_refs][n_sentences], from the options `hyp` and `ref`.

    check: raises DataError for a line that is no output, as which a line of a file with more lines may be explained.
    """
    of_refs, of_systems = names(ref, "ref", "a file"), names(hyp, "hyp", "a file")
    if "-" in of_refs:
        raise ConfigError("ref=-: only hyp can be standard input (-); give a file of references")
    refs = {path: _lines(path) for path in of_refs}
    systems = {STDIN if path == "-" else path: _lines(path) for path in of_systems}
    (first, lines), *others = [*refs.items(), *systems.items()]
    for path, other in others:
        if len(other) != len(lines):
            _check_first(check, {path: other, first: lines})
            raise DataError(_unequal(path, len(other), first, len(lines)))
    return systems, list(refs.values())


def stream_aligned(src: str, others: Sequence[str]) -> tuple[int, Callable[[str], Iterator[Example]]]:
    """The common number of lines of the files, and a function that reads `src` paired with one of the others."""
    for path in (src, *others):
        if is_stream(path):
            raise ConfigError(f"{path}: with model, files are read more than once: give a regular file, not a pipe")
    (first, n), *rest = [(path, sum(1 for _ in _stream(path))) for path in (src, *others)]
    if not n:
        raise DataError(_empty(first))
    for path, n_lines in rest:
        if n_lines != n:
            raise DataError(_unequal(path, n_lines, first, n))
    return n, lambda path: map(Example, _stream(src), _stream(path))


def names(value: Any, key: str, what: str) -> list[str]:
    """One or several names of files or runs; `what` describes them in errors."""
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(name, str) and name and "\0" not in name for name in found):
        raise ConfigError(f"{key}={value}: give {what}, or several as {key}=[a,b]")
    if len(set(found)) < len(found):
        raise ConfigError(f"{key}={value}: {what} stands there twice; give each once")
    return found


def _check_first(check: Callable[[str], Any], files: Mapping[str, list[str]]) -> None:
    for path, lines in files.items():
        try:
            check(lines[0])
        except DataError as error:
            raise DataError(f"{path}:1: {error}") from None


def _lines(path: str) -> list[str]:
    """All lines of a file, plain or gzip, or of standard input (-)."""
    if path != "-":
        return _read(Path(path), path)
    with tempfile.TemporaryDirectory() as folder:  # gzip detection rewinds the file, which a pipe cannot
        spool = Path(folder) / "stdin"
        spool.write_bytes(standard_input().buffer.read())
        return _read(spool, STDIN)


def _read(path: Path, name: str) -> list[str]:
    lines = list(_stream(path, name))
    if not lines:
        raise DataError(_empty(name))
    return lines


def _stream(path: Path | str, name: str = "") -> Iterator[str]:
    try:
        yield from read_lines(Path(path))
    except DataError as error:  # preparation may drop a line; here that would misalign the rest
        raise DataError(
            str(error).replace(str(path), name or str(path)).replace(DROP_HINT, "repair the file")
        ) from None


def _empty(name: str) -> str:
    return f"{name}: is empty; expected one sentence a line"


def _unequal(path: str, n_lines: int, ref: str, n_ref: int) -> str:
    message = f"{path} has {n_lines:,} lines and {ref} has {n_ref:,}; they must be parallel, line by line"
    place = None if path == STDIN else first_misaligned_line(Path(path), Path(ref), n_lines, n_ref)
    return message if place is None else f"{message}. By their lengths they part near line {place:,}"
