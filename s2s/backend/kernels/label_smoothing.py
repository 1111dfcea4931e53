"""From logits to the label-smoothed loss and its gradient, without another tensor of their size.

Each row has the same bits whatever the others are, so rows are shared among as many threads as torch has.
Shapes: n positions, V symbols.
"""

from __future__ import annotations

__all__ = ["serves", "smoothed_"]

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from s2s.backend.kernels.library import call, library


def serves(logits: Tensor) -> bool:
    """Whether there is such a function for them: fp32 or bf16 on a CPU, and it is compiled."""
    if logits.device.type != "cpu" or logits.dtype not in (torch.float, torch.bfloat16) or not logits.is_contiguous():
        return False
    return library().functions is not None


def smoothed_(
    logits: Tensor, target: Tensor, counts: Tensor, on_target: float, on_each: float
) -> tuple[Tensor, Tensor]:
    """logits [n, V] become the gradient of -on_target log p[target] - on_each sum(log p); that and -log p[target], [n].

    All are 0 where `counts` [n] is not. on_target + V on_each must be 1.
    """
    loss, nll = logits.new_empty((2, len(logits)), dtype=torch.float)
    rows = (logits, target.contiguous(), counts.contiguous(), loss, nll)
    pieces = list(zip(*(t.chunk(torch.get_num_threads()) for t in rows), strict=True))

    def work(piece: tuple[Tensor, ...]) -> None:
        x, y, counted, *sums = piece
        room = torch.empty(x.size(1))
        is_bf16 = int(x.dtype == torch.bfloat16)
        call("s2s_smoothed", x, is_bf16, *x.shape, y, counted, on_target, on_each, room, *sums)

    if len(pieces) == 1:
        work(pieces[0])
    else:
        with ThreadPoolExecutor(len(pieces)) as pool:
            list(pool.map(work, pieces))
    return loss, nll
