"""The paths of hypotheses in the trees of their tokens; see `s2s.backend.operators.paths`."""

from __future__ import annotations

__all__ = ["accepts_paths", "extend_paths", "reorder_paths"]

from typing import TYPE_CHECKING

from s2s_cpu.library import call

if TYPE_CHECKING:
    from torch import Tensor


def extend_paths(path: Tensor, length: Tensor, n_nodes: Tensor) -> Tensor:
    """path [B, K, L], length, n_nodes [B] -> path, in place"""
    call("s2s_extend_paths", path, length, n_nodes, *path.shape)
    return path


def reorder_paths(path: Tensor, parents: Tensor) -> Tensor:
    """path [B, K, L], parents [B, K'] -> [B, K', L]"""
    n_sentences, beam, room = path.shape
    parents = parents.contiguous()
    out = path.new_empty(n_sentences, parents.size(1), room)
    call("s2s_reorder_paths", path, parents, n_sentences, beam, parents.size(1), room, out)
    return out


def accepts_paths(path: Tensor, *_: object) -> bool:
    """Contiguous paths on a CPU."""
    return path.is_cpu and path.is_contiguous()
