"""What beam search does between the steps of a model; with few sentences, torch's calls take longer than the model.

Shapes: B sentences, K live hypotheses of each, m continuations of a hypothesis, n candidates of a sentence, E finished
hypotheses of a sentence. Lists of a sentence are sorted by score, best first; -inf is the score of an empty place,
whose other values are arbitrary.
"""

from __future__ import annotations

__all__ = ["finish_candidates", "merge_candidates", "search_finished"]

import ctypes
from ctypes import c_void_p

import torch
from torch import Tensor

from s2s.backend.kernels.library import call
from s2s.backend.kernels.operator import Operator
from s2s.backend.kernels.topk import top_k

Candidates = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Hypotheses extended by one token, all [B, n]: sums of log-probabilities; indices of the hypotheses that are extended
(parents); tokens; their log-probabilities; the parents' newest nodes in the search history"""

Finished = tuple[Tensor, Tensor, Tensor]
"""Finished hypotheses, all [B, E]: sums of log-probabilities over the length penalty; their last nodes before eos in
the search history; log-probabilities of eos"""


def _merge_candidates(log_probs: Tensor, tokens: Tensor, score: Tensor, node: Tensor, n: int) -> Candidates:
    """The n best continuations of a sentence's hypotheses together.

    log_probs, tokens [B, K, m] of each hypothesis's continuations; score, node [B, K] of the hypotheses -> [B, n].
    """
    total = score[..., None] + log_probs
    best, index = top_k.reference(total.flatten(1), n)
    parents = index // total.size(2)
    token, log_prob = (values.flatten(1).gather(1, index) for values in (tokens, log_probs))
    return best, parents, token, log_prob, node.gather(1, parents)


def _native_merge_candidates(log_probs: Tensor, tokens: Tensor, score: Tensor, node: Tensor, n: int) -> Candidates:
    n_sentences, beam, m = tokens.shape
    best = _empty_candidates(n_sentences, min(n, beam * m))
    given = [x.contiguous() for x in (log_probs, tokens, score, node)]
    call("s2s_merge_candidates", *given, n_sentences, beam, m, best[0].size(1), *best)
    return best


def _finish_candidates(
    candidates: Candidates, finished: Finished, beam: int, eos: int, counted: int, penalties: Tensor, length: Tensor
) -> tuple[Finished, Candidates]:
    """Separates the candidates [B, n] that end in eos from those that live on.

    Returns the E best of `finished` [B, E] and of the candidates that end, of equal ones the former first, and the
    `beam` best of the other candidates. Only the first `counted` candidates may finish. A candidate of sentence b that
    ends has the score of its log-probabilities over penalties[length[b]].
    """
    score, _, token, log_prob, node = candidates
    ends = token == eos
    if ends.is_cpu and not ends.any():  # elsewhere, asking would synchronise with the device
        score, parents, token, log_prob, node = (x[:, :beam] for x in candidates)
        return finished, (score, parents, token, log_prob, node)
    counts = ends & (torch.arange(ends.size(1), device=ends.device) < counted)
    ended = (score / penalties[length][:, None]).masked_fill(~counts, -torch.inf)
    after = [torch.cat(pair, dim=1) for pair in zip(finished, (ended, node, log_prob), strict=True)]
    best, index = top_k.reference(after[0], finished[0].size(1))
    live, order = top_k.reference(score.masked_fill(ends, -torch.inf), beam)
    parents, token, log_prob, node = (x.gather(1, order) for x in candidates[1:])
    return (best, after[1].gather(1, index), after[2].gather(1, index)), (live, parents, token, log_prob, node)


def _native_finish_candidates(
    candidates: Candidates, finished: Finished, beam: int, eos: int, counted: int, penalties: Tensor, length: Tensor
) -> tuple[Finished, Candidates]:
    (n_sentences, n), n_finished = candidates[0].shape, finished[0].size(1)
    live = _empty_candidates(n_sentences, min(beam, n))
    shape = (n_sentences, n_finished)
    result = torch.empty(shape), torch.empty(shape, dtype=torch.long), torch.empty(shape)
    given, before = [x.contiguous() for x in candidates], [x.contiguous() for x in finished]
    sizes = (n_sentences, n, live[0].size(1), n_finished, eos, counted)
    pointers = _pointers(given), _pointers(before)
    call("s2s_finish_candidates", *pointers, *sizes, penalties, length, _pointers(live), _pointers(result))
    return result, live


def _search_finished(
    score: Tensor, finished: Tensor, length: Tensor, limit: Tensor, penalties: Tensor, n: int
) -> Tensor:
    """Whether no live hypothesis can still become one of a sentence's n best: [B], bool.

    score [B, K] of live hypotheses of length [B], which may reach `limit` [B] tokens; finished [B, E] are the scores of
    finished ones. A live hypothesis can only lose log-probability, so its best future score is the present one over the
    larger of the penalties of the earliest and the latest end: penalties[length + 1] and penalties[limit + 1].
    """
    reachable = score[:, 0] / torch.maximum(penalties[length + 1], penalties[limit + 1])
    return finished[:, n - 1] >= reachable


def _native_search_finished(
    score: Tensor, finished: Tensor, length: Tensor, limit: Tensor, penalties: Tensor, n: int
) -> Tensor:
    result = torch.empty(len(length), dtype=torch.bool)
    sizes = (len(length), score.size(1), finished.size(1), n)
    given = score.contiguous(), finished.contiguous(), length, limit, penalties
    call("s2s_search_finished", *given, *sizes, result)
    return result


def _empty_candidates(*shape: int) -> Candidates:
    return (
        torch.empty(shape),
        torch.empty(shape, dtype=torch.long),
        torch.empty(shape, dtype=torch.long),
        torch.empty(shape),
        torch.empty(shape, dtype=torch.long),
    )


def _pointers(tensors: tuple[Tensor, ...] | list[Tensor]) -> ctypes.Array[c_void_p]:
    """A C structure of pointers to them."""
    return (c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


merge_candidates = Operator(
    "merge_candidates", reference=_merge_candidates, native=_native_merge_candidates, fp32=[0, 2]
)
finish_candidates = Operator(
    "finish_candidates", reference=_finish_candidates, native=_native_finish_candidates, fp32=[5]
)
search_finished = Operator("search_finished", reference=_search_finished, native=_native_search_finished, fp32=[0, 1])
joined, settled, over = merge_candidates.native, finish_candidates.native, search_finished.native
"""Former entry points: call the operators instead."""
