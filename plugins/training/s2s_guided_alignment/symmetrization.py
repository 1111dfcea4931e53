"""One alignment of both directions: grow-diag-final-and (Koehn et al., 2005).

Shapes: S source tokens, T target tokens.
"""

from __future__ import annotations

__all__ = ["grow_diag_final_and"]

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: NDArray[np.bool_], backward: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The intersection of two alignments [T, S], grown to their union: [T, S]

    First by neighbours of what is aligned, diagonal ones too, if one of both tokens is not aligned yet; then, forward
    before backward, by pairs of two tokens that are not aligned.
    """
    aligned, union = forward & backward, forward | backward
    rows, columns = np.asarray(aligned.any(1)), np.asarray(aligned.any(0))
    grown = True
    while grown:
        grown = False
        for i, j in np.argwhere(aligned):
            for down, right in NEIGHBOURS:
                k, m = i + down, j + right
                if not (0 <= k < union.shape[0] and 0 <= m < union.shape[1]):
                    continue
                if union[k, m] and not aligned[k, m] and not (rows[k] and columns[m]):
                    aligned[k, m] = rows[k] = columns[m] = grown = True
    for direction in (forward, backward):
        for i, j in np.argwhere(direction & ~aligned):
            if not rows[i] and not columns[j]:
                aligned[i, j] = rows[i] = columns[j] = True
    return aligned
