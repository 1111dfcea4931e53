"""The largest values of each row, in one pass; see `s2s.backend.operators.topk`."""

from __future__ import annotations

__all__ = ["top_k", "top_k_log_probs"]

import torch
from torch import Tensor

from s2s_cpu.library import call


def top_k(scores: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """scores [..., V] -> values, indices [..., min(n, V)]"""
    return _call(scores, min(n, scores.size(-1)), None, None, normalize=False)


def top_k_log_probs(
    logits: Tensor, n: int, banned: Tensor, allowed: Tensor | None = None, normalize: bool = True
) -> tuple[Tensor, Tensor]:
    """logits, allowed [..., V], banned [N] -> log-probabilities, tokens [..., min(n + N, V)]"""
    return _call(logits, min(n + len(banned), logits.size(-1)), banned, allowed, normalize=normalize)


def _call(
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
