"""The vocabulary of a published model with fewer and with more tokens, and where the rows of its tokens come from."""

from __future__ import annotations

__all__ = ["change_vocabulary"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from s2s.task import Task
    from s2s.vocab import Side

Rows = list[Sequence[int]]
"""For each token, the rows of the published model of which its own is the mean"""


def change_vocabulary(
    task: Task,
    directory: Path,
    new_rows: Mapping[str, Sequence[str]],
    texts: Iterable[str] | None,
    tokens: Sequence[str],
) -> dict[Side, Rows] | None:
    """Prune the vocabulary in `directory` to texts, and add tokens; None if it stays as it is.

    new_rows: tokens of `task` that the model does not have, with those of whose rows theirs are the mean.
    """
    if texts is None and not tokens and not new_rows:
        return None
    sizes: dict[Side, int] = {"src": task.vocab.src, "tgt": task.vocab.tgt}
    rows: dict[Side, Rows] = {side: [(i,) for i in range(n)] for side, n in sizes.items()}
    for side, own in rows.items():
        ids = {name: i for i, name in enumerate(task.vocabulary(side) or ())}
        for name, like in new_rows.items():
            if name in ids:
                own[ids[name]] = [ids[one] for one in like]
    if texts is not None:
        kept = task.prune(directory, texts)
        rows = {side: [own[i] for i in kept[side]] for side, own in rows.items()}
    if tokens:
        new = task.add_tokens(directory, tokens)
        rows = {side: [*own, *([j for i in ids for j in own[i]] for ids in new[side])] for side, own in rows.items()}
    return rows
