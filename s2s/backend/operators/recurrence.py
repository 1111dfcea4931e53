"""Recurrence over whole sequences. Shapes: T steps, B sentences, H width."""

from __future__ import annotations

__all__ = ["lstm"]

import torch
from torch import Tensor
from torch.nn import functional as F

from s2s.backend.operators.operator import Operator


@Operator
def lstm(parts: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """An LSTM layer (Hochreiter and Schmidhuber, 1997) with a forget gate: its outputs and cell states, both [T, B, H].

    parts [T, B, 4 H] are the input's contributions to the gates (input, forget, cell, output), with the bias; weight
    [4 H, H] applies to the previous output; h, c [B, H] are the initial output and cell state, in fp32 or more.
    """
    steps = []
    for part in parts:
        i, f, g, o = (part + F.linear(h, weight)).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        steps.append((h, c))
    outputs, cells = zip(*steps, strict=True)
    return torch.stack(outputs), torch.stack(cells)
