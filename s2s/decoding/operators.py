"""What a beam search does to tensors between two steps of the model, each an operator with two implementations.

The C implementation runs where it can (for few sentences, calls of torch take longer than the model); torch's is for
all other devices and types. Both take the same arguments and return the same values, so no caller knows which runs.

Shapes: B sentences, K live hypotheses per sentence, m continuations of each, n candidates, E finished hypotheses.
"""

from __future__ import annotations

__all__ = ["best_candidates", "cannot_improve", "merge_finished", "unfinished"]

import torch
from torch import Tensor

from s2s.backend import kernels
from s2s.backend.kernels import beam_search as search
from s2s.decoding.hypotheses import Candidates, FinishedHypotheses
from s2s.decoding.topk import topk


def best_candidates(log_probs: Tensor, tokens: Tensor, score: Tensor, node: Tensor, n: int) -> Candidates:
    """The n best of all continuations [B, K, m] of hypotheses with score and node [B, K]."""
    if kernels.serves(log_probs, score):
        return Candidates(*search.joined(log_probs, tokens, score, node, n))
    total = score[..., None] + log_probs
    best, index = topk(total.flatten(1), n)
    parents = index // total.size(2)
    token, log_prob = (values.flatten(1).gather(1, index) for values in (tokens, log_probs))
    return Candidates(best, parents, token, log_prob, node.gather(1, parents))


def merge_finished(
    candidates: Candidates,
    before: FinishedHypotheses,
    eos: int,
    n_counted: int,
    penalties: Tensor,
    length: Tensor,
) -> FinishedHypotheses:
    """The finished hypotheses [B, E] with those of the first `n_counted` candidates [B, n] that end.

    One of length[b] tokens scores its log-probability over penalties[length[b]]; of equal ones the first comes first.
    """
    if kernels.serves(candidates.score):
        found = search.merge_finished(candidates, before, eos, n_counted, penalties, length)
        return FinishedHypotheses(*found)
    ends = candidates.token == eos
    if candidates.score.device.type == "cpu" and not ends.any():  # another device would have to be waited for
        return before
    counts = ends & (torch.arange(ends.size(1), device=ends.device) < n_counted)
    score = (candidates.score / penalties[length][:, None]).masked_fill(~counts, -torch.inf)
    new = FinishedHypotheses(score, candidates.node, candidates.log_prob)
    both = [torch.cat(pair, dim=1) for pair in zip(before, new, strict=True)]
    score, index = topk(both[0], before.score.size(1))
    return FinishedHypotheses(score, *(values.gather(1, index) for values in both[1:]))


def unfinished(candidates: Candidates, eos: int, n: int) -> Candidates:
    """The first n candidates that do not end; -inf marks none."""
    if kernels.serves(candidates.score):
        return Candidates(*search.unfinished(candidates, eos, n))
    ends = candidates.token == eos
    if candidates.score.device.type == "cpu" and not ends.any():
        return candidates.first(n)
    score, index = topk(candidates.score.masked_fill(ends, -torch.inf), n)
    return Candidates(score, *(values.gather(1, index) for values in candidates[1:]))


def cannot_improve(live: Tensor, finished: Tensor, length: Tensor, limit: Tensor, penalties: Tensor, n: int) -> Tensor:
    """Whether the best n of finished [B, E] score no less than what live hypotheses [B, K] can reach: [B]

    live: log-probabilities, the best first, at length [B]. At best they lose nothing more, and end at the length,
    between the next and limit [B], whose penalty is the largest.
    """
    if kernels.serves(finished, live):
        return search.over(live, finished, length, limit, penalties, n)
    reachable = live[:, 0] / torch.maximum(penalties[length + 1], penalties[limit + 1])
    return finished[:, n - 1] >= reachable
