"""The paths of hypotheses in the trees of their tokens: see `s2s.nn.kv_cache`.

Shapes: B sentences, K hypotheses, L room for tokens.
"""

from __future__ import annotations

__all__ = ["extend_paths", "reorder_paths"]

import torch
from torch import Tensor

from s2s.backend.kernels.library import call
from s2s.backend.kernels.operator import Operator


def _extend_paths(path: Tensor, length: Tensor, n_nodes: Tensor) -> Tensor:
    """Adds a new node to the end of each path [B, K, L], in place.

    Paths of sentence b have length[b] nodes, its tree n_nodes[b]: hypothesis k gets node n_nodes[b] + k.
    """
    beam = path.size(1)
    new = n_nodes[:, None] + torch.arange(beam, device=path.device)  # [B, K]
    end = length[:, None, None].expand(-1, beam, -1)
    return path.scatter_(2, end, new[..., None])


def _native_extend_paths(path: Tensor, length: Tensor, n_nodes: Tensor) -> Tensor:
    call("s2s_extend_paths", path, length, n_nodes, *path.shape)
    return path


def _reorder_paths(path: Tensor, parents: Tensor) -> Tensor:
    """path [B, K, L], parents [B, K'] -> [B, K', L]: path k of sentence b is a copy of path[b, parents[b, k]]."""
    first = torch.arange(len(path), device=path.device)[:, None] * path.size(1)
    return path.flatten(0, 1).index_select(0, (first + parents).flatten()).unflatten(0, parents.shape)


def _native_reorder_paths(path: Tensor, parents: Tensor) -> Tensor:
    n_sentences, beam, room = path.shape
    parents = parents.contiguous()
    out = path.new_empty(n_sentences, parents.size(1), room)
    call("s2s_reorder_paths", path, parents, n_sentences, beam, parents.size(1), room, out)
    return out


def _on_cpu(path: Tensor, *_: object) -> bool:
    return path.is_cpu and path.is_contiguous()


extend_paths = Operator("extend_paths", reference=_extend_paths, native=_native_extend_paths, accepts=_on_cpu)
reorder_paths = Operator("reorder_paths", reference=_reorder_paths, native=_native_reorder_paths, accepts=_on_cpu)
