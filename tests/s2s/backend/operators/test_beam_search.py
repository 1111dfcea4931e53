"""The reference operators of what search does between steps, against loops over lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s.backend.operators import merge_candidates, merge_finished, search_finished, unfinished_candidates

if TYPE_CHECKING:
    from s2s.backend.operators.beam_search import Candidates

EOS = 2


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def candidates(n_sentences: int = 3, n: int = 6) -> Candidates:
    """Sorted by score; about a third of them end."""
    ints = torch.Generator().manual_seed(1)
    parents, token, node = (torch.randint(4, (n_sentences, n), generator=ints) for _ in range(3))
    return random(n_sentences, n).sort(descending=True).values, parents, token, random(n, n_sentences).mT, node + 20


def test_the_best_continuations_of_all_hypotheses_are_merged() -> None:
    log_probs, tokens = random(2, 3, 4), torch.arange(24).view(2, 3, 4)
    score, node = random(2, 3), torch.tensor([[7, 8, 9], [4, 5, 6]])
    found = merge_candidates.reference(log_probs, tokens, score, node, 5)
    for b in range(2):
        every = sorted(
            ((float(score[b, k] + log_probs[b, k, j]), k, j) for k in range(3) for j in range(4)), reverse=True
        )
        expected = [[t, k, tokens[b, k, j], log_probs[b, k, j], node[b, k]] for t, k, j in every[:5]]
        assert torch.equal(torch.stack([x[b].float() for x in found], dim=1), torch.tensor(expected))


@pytest.mark.parametrize("counted", [2, 6])
def test_the_best_finished_hypotheses_are_those_before_and_those_that_end_now(counted: int) -> None:
    now, length, penalties = candidates(), torch.tensor([1, 3, 2]), torch.tensor([9.0, 1.0, 2.0, 4.0])
    before = (
        torch.tensor([[0.3, 0.1, -torch.inf]] * 3),
        torch.tensor([[1, 2, 3]] * 3),
        torch.tensor([[0.5, 0.6, 0.7]] * 3),
    )
    found = merge_finished.reference(now, before, EOS, counted, penalties, length)
    for b in range(3):
        rows = [tuple(float(x[b, e]) for x in before) for e in range(3)]
        for i in range(counted):
            if now[2][b, i] == EOS:
                rows.append((float(now[0][b, i] / penalties[length[b]]), float(now[4][b, i]), float(now[3][b, i])))
        rows = [row for row in sorted(rows, key=lambda row: -row[0]) if row[0] > -torch.inf][:3]
        assert [tuple(float(x[b, e]) for x in found) for e in range(len(rows))] == rows


def test_of_equal_scores_the_hypothesis_that_finished_first_stays_first() -> None:
    one = torch.ones(1, 1)
    now = (one, one.long(), torch.full((1, 1), EOS), one * 5, one.long() * 6)
    score, node, log_prob = merge_finished.reference(
        now, (one, one.long() * 3, one * 4), EOS, 1, torch.ones(3), torch.tensor([1])
    )
    assert (score.tolist(), node.tolist(), log_prob.tolist()) == ([[1.0]], [[3]], [[4.0]])


def test_candidates_that_do_not_end_keep_their_order() -> None:
    every = candidates()
    found = unfinished_candidates.reference(every, EOS, 3)
    for b in range(3):
        kept = [i for i in range(6) if every[2][b, i] != EOS][:3]
        assert len(kept) == 3
        for one, other in zip(found, every, strict=True):
            assert one[b].tolist() == other[b, kept].tolist()
    nothing_ends = unfinished_candidates.reference(every, 99, 3)
    for one, other in zip(nothing_ends, every, strict=True):
        assert torch.equal(one, other[:, :3])


@pytest.mark.parametrize("alpha", [0.6, -0.5], ids=["longest is best", "shortest is best"])
@pytest.mark.parametrize(("margin", "done"), [(0.0, True), (1e-3, True), (-1e-3, False)])
def test_a_search_is_finished_where_no_live_hypothesis_can_reach_the_n_best(
    alpha: float, margin: float, done: bool
) -> None:
    """With one token more, its eos, the best live hypothesis has at least length + 1 and at most limit + 1."""
    penalties = ((5 + torch.arange(12.0)) / 6) ** alpha
    best = -6.0 / max(float(penalties[n]) for n in range(4 + 1, 9 + 1 + 1))
    finished = torch.tensor([[best + 2, best + margin, best - 2]])
    score = torch.tensor([[-6.0, -7.0]])
    found = search_finished.reference(score, finished, torch.tensor([4]), torch.tensor([9]), penalties, 2)
    assert found.tolist() == [done]
