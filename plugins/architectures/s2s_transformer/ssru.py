"""The simpler simple recurrent unit (Kim et al., 2019), which takes the place of the decoder's self-attention.

Shapes: B sentences, T positions, K hypotheses, D width.
"""

from __future__ import annotations

__all__ = ["SSRU", "scan"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.nn import CachedAttention, Heads, Linear, VarlenLayout

if TYPE_CHECKING:
    from s2s.nn import Layout


class SSRU(nn.Module):
    """relu(c_t), where c_t = f_t c_(t-1) + (1 - f_t) W x_t with f_t = sigmoid(W_f x_t + b_f), and c_0 = 0.

    In decoding the nodes of the tree of hypotheses hold c_t where those of attention hold keys and values, so that
    hypotheses are reordered in the same way.
    """

    def __init__(self, d_model: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = Heads(1, d_k=0, d_v=d_model)  # the width of a node
        self.inner = Linear(d_model, d_model, bias=False)
        self.forget = Linear(d_model, d_model, bias)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """[..., T, D] -> [..., T, D]"""
        forget = self.forget(x).sigmoid()
        new = (1 - forget) * self.inner(x)
        if isinstance(layout, CachedAttention):
            return _step(forget, new, layout).relu()
        if isinstance(layout, VarlenLayout):  # c_0 of each packed sentence
            forget = forget * (layout.queries.positions > 0)[:, None]
        return scan(forget, new).relu()


def scan(forget: Tensor, new: Tensor) -> Tensor:
    """c_t = forget_t c_(t-1) + new_t with c_0 = 0: two tensors [..., T, D] -> [..., T, D], in log2(T) steps."""
    distance = 1
    while distance < new.size(-2):  # `new` holds what the last `distance` positions add, `forget` what remains of c
        before, remains = (F.pad(x[..., :-distance, :], (0, 0, distance, 0)) for x in (new, forget))
        new, forget = new + forget * before, forget * remains
        distance *= 2
    return new


def _step(forget: Tensor, new: Tensor, layout: CachedAttention) -> Tensor:
    """The newest tokens' [B, K, D] -> their c [B, K, D], which is written into their nodes"""
    paths, nodes = layout.paths, layout.nodes
    n_beam, width = new.shape[1:]
    last = (paths.length - 2).clamp(min=0)[:, None, None].expand(-1, n_beam, 1)
    parent = paths.path.gather(2, last).expand(-1, -1, width)
    is_first = (paths.length < 2)[:, None, None]
    before = nodes.gather(1, torch.where(is_first, 0, parent)).masked_fill(is_first, 0)  # [B, K, D]
    now = forget * before.to(new.dtype) + new
    nodes.scatter_(1, paths.newest[..., None].expand(-1, -1, width), now.to(nodes.dtype))
    return now
