"""What beam search computes between the steps of a model; with few sentences, torch's calls take longer than the model.

Shapes: B sentences, K live hypotheses of each, m continuations of a hypothesis, n candidates of a sentence, E finished
hypotheses of a sentence. Lists of a sentence are sorted by score, best first; -inf is the score of an empty slot,
whose other values are arbitrary.
"""

from __future__ import annotations

__all__ = [
    "Candidates",
    "Finished",
    "merge_candidates",
    "merge_finished",
    "search_finished",
    "unfinished_candidates",
]

import torch
from torch import Tensor

from s2s.backend.operators.operator import Operator
from s2s.backend.operators.topk import top_k

Candidates = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Hypotheses extended by one token, all [B, n]: sums of log-probabilities; indices of the hypotheses that are extended
(parents); tokens; their log-probabilities; the parents' newest nodes in the search history"""

Finished = tuple[Tensor, Tensor, Tensor]
"""Finished hypotheses, all [B, E]: sums of log-probabilities over the length penalty; their last nodes before eos in
the search history; log-probabilities of eos"""


@Operator
def merge_candidates(log_probs: Tensor, tokens: Tensor, score: Tensor, node: Tensor, n: int) -> Candidates:
    """The n best continuations of all hypotheses of a sentence.

    log_probs, tokens [B, K, m] of each hypothesis's continuations; score, node [B, K] of the hypotheses -> [B, n].
    """
    total = score[..., None] + log_probs
    best, index = top_k.reference(total.flatten(1), n)
    parents = index // total.size(2)
    token, log_prob = (values.flatten(1).gather(1, index) for values in (tokens, log_probs))
    return best, parents, token, log_prob, node.gather(1, parents)


@Operator
def merge_finished(
    candidates: Candidates, finished: Finished, eos: int, n_finishable: int, penalties: Tensor, length: Tensor
) -> Finished:
    """The E best of `finished` [B, E] and of the candidates [B, n] that end in eos; ties go to the former.

    Only the first `n_finishable` candidates may finish. The score of a finished candidate of sentence b is its sum of
    log-probabilities over penalties[length[b]].
    """
    score, _, token, log_prob, node = candidates
    ends = token == eos
    if ends.is_cpu and not ends.any():  # elsewhere, this test would synchronise with the device
        return finished
    counts = ends & (torch.arange(ends.size(1), device=ends.device) < n_finishable)
    ended = (score / penalties[length][:, None]).masked_fill(~counts, -torch.inf)
    after = [torch.cat(pair, dim=1) for pair in zip(finished, (ended, node, log_prob), strict=True)]
    best, index = top_k.reference(after[0], finished[0].size(1))
    return best, after[1].gather(1, index), after[2].gather(1, index)


@Operator
def unfinished_candidates(candidates: Candidates, eos: int, n: int) -> Candidates:
    """The n best of the candidates [B, m] that do not end in eos."""
    ends = candidates[2] == eos
    if ends.is_cpu and not ends.any():
        score, parents, token, log_prob, node = (x[:, :n] for x in candidates)
        return score, parents, token, log_prob, node
    score, order = top_k.reference(candidates[0].masked_fill(ends, -torch.inf), n)
    parents, token, log_prob, node = (x.gather(1, order) for x in candidates[1:])
    return score, parents, token, log_prob, node


@Operator
def search_finished(
    score: Tensor, finished: Tensor, length: Tensor, limit: Tensor, penalties: Tensor, n: int
) -> Tensor:
    """Whether no live hypothesis can still become one of a sentence's n best: [B], bool.

    score [B, K] of live hypotheses of length [B], which may reach `limit` [B] tokens; finished [B, E] are the scores of
    finished ones. A live hypothesis can only lose log-probability, so its best future score is the present one over the
    larger of the penalties of the earliest and the latest end: penalties[length + 1] and penalties[limit + 1].
    """
    reachable = score[:, 0] / torch.maximum(penalties[length + 1], penalties[limit + 1])
    return finished[:, n - 1] >= reachable
