"""What a beam search does between the steps of a model: for few sentences, calls of torch take longer than the model.

Each function has its twin in torch where it is used. Shapes: B sentences, K hypotheses of each, n candidates, E outputs
that have ended, T room for symbols.
"""

from __future__ import annotations

__all__ = ["grow_paths", "joined", "merge_finished", "over", "select_paths", "unfinished"]

import ctypes
from ctypes import c_void_p

import torch
from torch import Tensor

from s2s.backend.kernels.library import call

Candidates = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Scores, best first; hypotheses that they go on from; symbols; their log-probabilities; numbers of those before"""

Finished = tuple[Tensor, Tensor, Tensor]
"""Scores, best first, numbers of the last symbols before eos, log-probabilities of eos"""


def joined(log_probs: Tensor, tokens: Tensor, score: Tensor, node: Tensor, n: int) -> Candidates:
    """The n best of all continuations [B, K, m] of hypotheses with score and node [B, K]; all [B, n]."""
    n_sentences, beam, m = tokens.shape
    found = _candidates(n_sentences, n)
    given = [x.contiguous() for x in (log_probs, tokens, score, node)]
    call("s2s_join", *given, n_sentences, beam, m, n, *found)
    return found


def merge_finished(
    candidates: Candidates, before: Finished, eos: int, counted: int, penalty: Tensor, length: Tensor
) -> Finished:
    """The finished hypotheses [B, E] with those of the first `counted` candidates [B, n] that end.

    One of length[b] tokens scores its log-probability over penalty[length[b]].
    """
    (n_sentences, n), shape = candidates[0].shape, before[0].shape
    after = torch.empty(shape), torch.empty(shape, dtype=torch.long), torch.empty(shape)
    given = [x.contiguous() for x in (*candidates, *before)]
    sizes = (n_sentences, n, shape[1], eos, counted)
    call("s2s_merge_finished", _to(given[:5]), _to(given[5:]), *sizes, penalty, length, _to(after))
    return after


def unfinished(candidates: Candidates, eos: int, n: int) -> Candidates:
    """The first n candidates [B, n] of [B, m] that do not end."""
    n_sentences, n_candidates = candidates[0].shape
    live = _candidates(n_sentences, n)
    given = [x.contiguous() for x in candidates]
    call("s2s_unfinished", _to(given), n_sentences, n_candidates, n, eos, _to(live))
    return live


def grow_paths(path: Tensor, length: Tensor, n_nodes: Tensor) -> Tensor:
    """path [B, K, T], each with one more node at its end: of sentence b, number n_nodes[b] and those that follow it."""
    call("s2s_grow_paths", path, length, n_nodes, *path.shape)
    return path


def select_paths(path: Tensor, parents: Tensor) -> Tensor:
    """path [B, K, T] -> [B, K', T], copies of the paths `parents` [B, K']"""
    n_sentences, beam, room = path.shape
    parents = parents.contiguous()
    found = path.new_empty(n_sentences, parents.size(1), room)
    call("s2s_select_paths", path.contiguous(), parents, n_sentences, beam, parents.size(1), room, found)
    return found


def over(score: Tensor, ended: Tensor, length: Tensor, limit: Tensor, penalty: Tensor, n: int) -> Tensor:
    """Whether the best n outputs of `ended` [B, E] are worth no less than what hypotheses with score [B, K] may become.

    They have length [B] and may have `limit` [B] symbols; penalty is that of any number of symbols, eos counted.
    """
    found = torch.empty(len(length), dtype=torch.bool)
    sizes = (len(length), score.size(1), ended.size(1), n)
    call("s2s_over", score.contiguous(), ended.contiguous(), length, limit, penalty, *sizes, found)
    return found


def _candidates(*shape: int) -> Candidates:
    return (
        torch.empty(shape),
        torch.empty(shape, dtype=torch.long),
        torch.empty(shape, dtype=torch.long),
        torch.empty(shape),
        torch.empty(shape, dtype=torch.long),
    )


def _to(tensors: tuple[Tensor, ...] | list[Tensor]) -> ctypes.Array[c_void_p]:
    """Pointers to them, as a structure of pointers has them."""
    return (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
