"""Operators of beam search: the largest values of a row, candidates, hypotheses that have ended, and paths in trees.

See `s2s.backend.operators`. Shapes: B sentences, K hypotheses of each, E finished ones, L room for tokens, V tokens.
"""

from __future__ import annotations

__all__ = [
    "accepts_merge_finished",
    "accepts_paths",
    "accepts_unfinished_candidates",
    "extend_paths",
    "merge_candidates",
    "merge_finished",
    "reorder_paths",
    "search_finished",
    "top_k",
    "top_k_log_probs",
    "unfinished_candidates",
]

import ctypes
from ctypes import c_void_p
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from s2s_cpu.library import call

if TYPE_CHECKING:
    from s2s.backend import operators


def top_k(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """scores [..., V] -> values, indices [..., min(n, V)]"""
    return _largest(scores, min(n, scores.size(-1)), None, None, normalize=False)


def top_k_log_probs(
    logits: Tensor, n: int, banned: Tensor, allowed: Tensor | None = None, normalize: bool = True
) -> tuple[Tensor, Tensor]:
    """logits, allowed [..., V], banned [N] -> log-probabilities, tokens [..., min(n + N, V)]"""
    return _largest(logits, min(n + len(banned), logits.size(-1)), banned, allowed, normalize=normalize)


def _largest(
    scores: Tensor, n: int, banned: Tensor | None, allowed: Tensor | None, *, normalize: bool
) -> tuple[Tensor, Tensor]:
    scores = scores.contiguous()
    shape = (*scores.shape[:-1], n)
    values, ids = scores.new_empty(shape), torch.empty(shape, dtype=torch.long)
    sums = scores.new_empty(scores.shape[:-1]) if normalize else None
    allowed = None if allowed is None else allowed.expand(scores.shape).contiguous()
    n_rows, n_banned = scores.numel() // max(scores.size(-1), 1), 0 if banned is None else len(banned)
    alone = (None, 1, 0)  # no scores, K = 1, n_best = 0: rows are independent, not hypotheses of a sentence
    call("s2s_top_k", scores, n_rows, scores.size(-1), n, allowed, banned, n_banned, *alone, sums, values, ids)
    return values, ids


def merge_candidates(log_probs: Tensor, tokens: Tensor, score: Tensor, node: Tensor, n: int) -> operators.Candidates:
    """log_probs, tokens [B, K, m], score, node [B, K] -> [B, n]"""
    n_sentences, beam, m = tokens.shape
    best = _empty_candidates((score, node, tokens, score, node), n_sentences, min(n, beam * m))
    inputs = [x.contiguous() for x in (log_probs, tokens, score, node)]
    call("s2s_merge_candidates", *inputs, n_sentences, beam, m, best[0].size(1), *best)
    return best


def merge_finished(
    candidates: operators.Candidates,
    finished: operators.Finished,
    eos: int,
    n_finishable: int,
    penalties: Tensor,
    length: Tensor,
) -> operators.Finished:
    """candidates [B, n], finished [B, E], length [B] -> [B, E]"""
    (n_sentences, n), shape = candidates[0].shape, finished[0].shape
    score, node, log_prob = (x.new_empty(shape) for x in finished)
    result = score, node, log_prob
    inputs, before = [x.contiguous() for x in candidates], [x.contiguous() for x in finished]
    sizes = (n_sentences, n, shape[1], eos, n_finishable)
    call("s2s_merge_finished", _pointers(inputs), _pointers(before), *sizes, penalties, length, _pointers(result))
    return result


def unfinished_candidates(candidates: operators.Candidates, eos: int, n: int) -> operators.Candidates:
    """candidates [B, m] -> [B, n]"""
    n_sentences, n_candidates = candidates[0].shape
    live = _empty_candidates(candidates, n_sentences, min(n, n_candidates))
    inputs = [x.contiguous() for x in candidates]
    call(
        "s2s_unfinished_candidates", _pointers(inputs), n_sentences, n_candidates, live[0].size(1), eos, _pointers(live)
    )
    return live


def search_finished(
    score: Tensor, finished: Tensor, length: Tensor, limit: Tensor, penalties: Tensor, n: int
) -> Tensor:
    """score [B, K], finished [B, E], length, limit [B] -> [B], bool"""
    result = torch.empty(len(length), dtype=torch.bool)
    sizes = (len(length), score.size(1), finished.size(1), n)
    inputs = score.contiguous(), finished.contiguous(), length, limit, penalties
    call("s2s_search_finished", *inputs, *sizes, result)
    return result


def accepts_unfinished_candidates(candidates: operators.Candidates, *_: object) -> bool:
    """fp32 scores on a CPU."""
    return candidates[0].dtype is torch.float32 and candidates[0].is_cpu


def accepts_merge_finished(candidates: operators.Candidates, finished: operators.Finished, *given: Any) -> bool:
    """The same, and penalties."""
    _eos, _n_finishable, penalties, _length = given
    return all(x.dtype is torch.float32 and x.is_cpu for x in (candidates[0], finished[0], penalties))


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


def _empty_candidates(like: operators.Candidates, *shape: int) -> operators.Candidates:
    scores, parents, tokens, log_probs, nodes = (x.new_empty(shape) for x in like)
    return scores, parents, tokens, log_probs, nodes


def _pointers(tensors: tuple[Tensor, ...] | list[Tensor]) -> ctypes.Array[c_void_p]:
    """A C structure of pointers to them."""
    return (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
