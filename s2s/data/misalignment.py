"""Where two files that should be parallel become misaligned, estimated from the lengths of their lines.

If d lines are missing in one file before line k, then from k on the pairs match when the other file is shifted by d.
The estimate is the k with the least sum of length differences, unshifted before it and shifted after it.
"""

from __future__ import annotations

__all__ = ["first_misaligned_line"]

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from s2s.data.text import Line, blocks
from s2s.task import Rejected

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MIN_EVIDENCE = 20  # with fewer lines after the gap, no line is named


def first_misaligned_line(src_path: Path, tgt_path: Path, n_src: int, n_tgt: int) -> int | None:
    """The first line, from 1, of the gap; None where the shorter file just ends early."""
    short, long = (src_path, tgt_path) if n_src < n_tgt else (tgt_path, src_path)
    gap, n_short = abs(n_src - n_tgt), min(n_src, n_tgt)
    short_logs, long_logs = _log_lengths(short), _log_lengths(long)
    scale = long_logs.mean() - short_logs.mean() if n_short else 0.0  # one language is wordier
    unshifted = np.abs(long_logs[:n_short] - short_logs - scale)
    shifted = np.abs(long_logs[gap : gap + n_short] - short_logs - scale)
    cost = np.concatenate([[0.0], np.cumsum(unshifted - shifted)])  # of a gap after k lines, up to a constant
    line = int(cost.argmin())
    return None if n_short - line < MIN_EVIDENCE and n_short >= MIN_EVIDENCE else line + 1


def _log_lengths(path: Path) -> NDArray[np.float32]:
    """log(1 + characters) of every line; the only memory that grows with the file, used only on error."""
    parts = (np.fromiter(map(_length, block), np.float32, len(block)) for block in blocks(path, "drop"))
    return np.log1p(np.fromiter(chain.from_iterable(parts), np.float32))


def _length(line: Line) -> int:
    return 0 if isinstance(line, Rejected) else len(line)
