"""The output of s2s-generate as a stream; outputs that can be continued derive from it."""

from __future__ import annotations

__all__ = ["OutputStream", "ended"]

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from s2s.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def ended(lines: Sequence[str], end: str) -> bytes:
    """Lines with their ends, in UTF-8; if `end` is empty, only the last is without one."""
    return f"{(end or chr(10)).join(lines)}{end if lines else ''}".encode()


class OutputStream:
    """Standard output (-), a pipe, a device or a file, in UTF-8 whatever the locale, flushed after every output."""

    supports_resume = False
    """Whether it continues what an earlier command wrote"""
    how_to_begin_anew = "remove it"
    """What the user must do to have a finished output made once more"""
    line_counting_option = ""
    """The option that requires the same number of lines for every output, such as "resume=true"; empty: none"""

    def __init__(self, path: str) -> None:
        self.name = path

    def files(self) -> list[Path]:
        """Every file that is written."""
        return [] if self.name == "-" else [Path(self.name)]

    def inputs(self) -> range | None:
        """The numbers of the input lines, from 0, whose outputs belong here; None: all."""
        return None

    def is_done(self, provenance: Mapping[str, Any]) -> bool:
        """Whether an earlier command with the same input, checkpoint and options finished it; never for a stream."""
        return False

    def begin(self, provenance: Mapping[str, Any]) -> int:
        """Start anew; returns 0, the number of outputs already written."""
        if self.name != "-":
            self.file: IO[bytes] = Path(self.name).open("wb")  # noqa: SIM115  closed by `close`
        elif sys.stdout is None:
            raise ConfigError("output=-: standard output is closed; give output=FILE")
        else:
            self.file = sys.stdout.buffer
        return 0

    def resume(self, provenance: Mapping[str, Any], n_lines: int) -> int:
        """Continue; returns the number of outputs, of `n_lines` lines each, already written."""
        return self.begin(provenance)

    def write(self, lines: Sequence[str], end: str = "\n") -> None:
        """Write the lines of one output, each with this end; an empty one ends only the last."""
        with self._named_in_errors():
            self.file.write(ended(lines, end))
            self.file.flush()

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = "standard output" if self.name == "-" else self.name
            raise

    def finish(self) -> None:
        """Called after the last output."""

    def close(self) -> None:
        """Called after `finish`, or after an error; standard output stays open."""
        if self.name != "-":
            with self._named_in_errors():  # closing retries what could not be written
                self.file.close()

    def unfinished(self) -> str:
        """The end of an error message, which says where the outputs so far are."""
        return ""
