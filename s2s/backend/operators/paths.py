"""The paths of hypotheses in the trees of their tokens: see `s2s.nn.kv_cache`.

Shapes: B sentences, K hypotheses, L room for tokens.
"""

from __future__ import annotations

__all__ = ["extend_paths", "reorder_paths"]

import torch
from torch import Tensor

from s2s.backend.operators.operator import Operator


@Operator
def extend_paths(path: Tensor, length: Tensor, n_nodes: Tensor) -> Tensor:
    """Adds a new node to the end of each path [B, K, L], in place.

    Paths of sentence b have length[b] nodes, its tree n_nodes[b]: hypothesis k gets node n_nodes[b] + k.
    """
    beam = path.size(1)
    new = n_nodes[:, None] + torch.arange(beam, device=path.device)  # [B, K]
    end = length[:, None, None].expand(-1, beam, -1)
    return path.scatter_(2, end, new[..., None])


@Operator
def reorder_paths(path: Tensor, parents: Tensor) -> Tensor:
    """path [B, K, L], parents [B, K'] -> [B, K', L]: path k of sentence b is a copy of path[b, parents[b, k]]."""
    first = torch.arange(len(path), device=path.device)[:, None] * path.size(1)
    return path.flatten(0, 1).index_select(0, (first + parents).flatten()).unflatten(0, parents.shape)
