"""A search's bookkeeping in C against the same in torch, on candidates full of ties and of what is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from s2s.backend import kernels
from s2s.backend.kernels.beam_search import grow_paths, select_paths
from s2s.decoding.hypotheses import Candidates, FinishedHypotheses
from s2s.decoding.operators import best_candidates, cannot_improve, merge_finished, unfinished
from s2s.decoding.penalties import gnmt
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not kernels.serves(torch.empty(0)), reason=kernels.description())

VOCAB = Vocab(src=9, tgt=9, joint=True)
SENTENCES = 40
PENALTIES = gnmt(torch.arange(40.0), 0.6)


class Draw:
    """Few different values, so that many are equal."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def scores(self, *shape: int, absent: float = 0.2) -> Tensor:
        """Some are -inf."""
        found = -torch.randint(6, shape, generator=self.generator) / 4
        return found.masked_fill(torch.rand(shape, generator=self.generator) < absent, -torch.inf)

    def ids(self, n: int, *shape: int) -> Tensor:
        return torch.randint(n, shape, generator=self.generator)

    def candidates(self, beam: int) -> Candidates:
        """Best first; a fifth of the tokens are eos."""
        n = 2 * beam
        score = self.scores(SENTENCES, n).sort(descending=True).values
        ids = self.ids(beam, SENTENCES, n), self.ids(5, SENTENCES, n)
        return Candidates(score, *ids, -score, self.ids(99, SENTENCES, n))


@pytest.fixture
def in_both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """What an operator returns in C and in torch."""

    def each(operator: Callable[..., Any], *arguments: Any) -> list[Any]:
        found = [operator(*arguments)]
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "serves", lambda *tensors: False)
            return [*found, operator(*arguments)]

    return each


def assert_same(found: Any, expected: Any) -> None:
    """All that belongs to a score that is not -inf."""
    assert torch.equal(found.score, expected.score)
    there = expected.score > -torch.inf
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a[there], b[there])


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_the_best_of_all_continuations_are_those_of_a_sort(beam: int, in_both: Callable[..., list[Any]]) -> None:
    draw, m = Draw(beam), 2 * beam + 2
    score = draw.scores(SENTENCES, beam).sort(descending=True).values
    node = draw.ids(99, SENTENCES, beam)
    log_probs, tokens = draw.scores(SENTENCES, beam, m), draw.ids(9, SENTENCES, beam, m)
    assert_same(*in_both(best_candidates, log_probs, tokens, score, node, 2 * beam))


@pytest.mark.parametrize("counts_all", [True, False])
@pytest.mark.parametrize("beam", [1, 4, 21])
def test_the_same_hypotheses_are_finished(beam: int, counts_all: bool, in_both: Callable[..., list[Any]]) -> None:
    draw = Draw(beam)
    candidates, length = draw.candidates(beam), draw.ids(20, SENTENCES) + 1
    scores = draw.scores(SENTENCES, beam, absent=0.5).sort(descending=True).values
    before = FinishedHypotheses(scores, draw.ids(99, SENTENCES, beam), -scores)
    n_counted = 2 * beam if counts_all else beam
    found, expected = in_both(merge_finished, candidates, before, VOCAB.eos, n_counted, PENALTIES, length)
    assert (expected.score != scores).any()
    assert_same(found, expected)


@pytest.mark.parametrize("all_of_them", [True, False])
@pytest.mark.parametrize("beam", [1, 4, 21])
def test_the_same_hypotheses_live_on(beam: int, all_of_them: bool, in_both: Callable[..., list[Any]]) -> None:
    candidates = Draw(beam).candidates(beam)
    found, expected = in_both(unfinished, candidates, VOCAB.eos, 2 * beam if all_of_them else beam)
    assert not (expected.token[expected.score > -torch.inf] == VOCAB.eos).any()
    assert_same(found, expected)


@pytest.mark.parametrize("n", [1, 4])
def test_the_same_sentences_are_done(n: int, in_both: Callable[..., list[Any]]) -> None:
    draw = Draw(n)
    length = draw.ids(20, SENTENCES)
    live, ended = (draw.scores(SENTENCES, 4, absent=0.05).sort(descending=True).values for _ in range(2))
    score = ended / PENALTIES[length + 1, None]
    found, expected = in_both(cannot_improve, 3 * live, score, length, length + 7, PENALTIES, n)
    assert torch.equal(found, expected)
    assert 0 < expected.sum() < SENTENCES


def test_paths_grow_and_are_copied() -> None:
    draw = torch.Generator().manual_seed(0)
    path, length = torch.randint(99, (5, 3, 8), generator=draw), torch.tensor([0, 7, 3, 3, 1])
    n_nodes = torch.tensor([0, 50, 9, 12, 3])
    expected = path.clone()
    for b in range(5):
        expected[b, :, length[b]] = n_nodes[b] + torch.arange(3)
    assert torch.equal(grow_paths(path, length, n_nodes), expected)
    parents = torch.randint(3, (5, 7), generator=draw)
    assert torch.equal(select_paths(path, parents), path[torch.arange(5)[:, None], parents])
