"""A search's bookkeeping in C against the same in torch, on candidates full of ties and of what is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from s2s.backend import kernels
from s2s.backend.kernels.beam_search import grow_paths, select_paths
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import Space
from s2s.decoding.hypotheses import Candidates, FinishedHypotheses
from s2s.task import Vocab

pytestmark = pytest.mark.skipif(not kernels.serves(torch.empty(0)), reason=kernels.description())

VOCAB = Vocab(src=9, tgt=9, joint=True)
SENTENCES = 40


class Both:
    """One space, and what it makes of something in C and in torch."""

    def __init__(self, beam: int, stop: Literal["exact", "best", "first_k"], monkeypatch: pytest.MonkeyPatch) -> None:
        model: Any = SimpleNamespace(returns_log_probs=False)
        self.space = Space(BeamConfig(beam=beam, stop=stop, alpha=0.6), model, VOCAB, torch.device("cpu"), None, 1)
        self.space.penalties = self.space.penalty(torch.arange(40.0))
        self.monkeypatch = monkeypatch
        self.draw = torch.Generator().manual_seed(beam)

    def scores(self, *shape: int, absent: float = 0.2) -> Tensor:
        """Few different ones, some -inf."""
        found = -torch.randint(6, shape, generator=self.draw) / 4
        return found.masked_fill(torch.rand(shape, generator=self.draw) < absent, -torch.inf)

    def ids(self, n: int, *shape: int) -> Tensor:
        return torch.randint(n, shape, generator=self.draw)

    def each(self, method: str, *arguments: Any) -> list[Any]:
        found = [getattr(self.space, method)(*arguments)]
        with self.monkeypatch.context() as patch:
            patch.setattr(kernels, "serves", lambda *tensors: False)
            return [*found, getattr(self.space, method)(*arguments)]


def assert_same(found: Any, expected: Any) -> None:
    """All that belongs to a score that is there."""
    assert torch.equal(found.score, expected.score)
    there = expected.score > -torch.inf
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a[there], b[there])


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_the_best_of_all_continuations_are_those_of_a_sort(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    both, m = Both(beam, "exact", monkeypatch), 2 * beam + 2
    score = both.scores(SENTENCES, beam).sort(descending=True).values
    beams: Any = SimpleNamespace(score=score, node=both.ids(99, SENTENCES, beam))
    log_probs, tokens = both.scores(SENTENCES, beam, m), both.ids(9, SENTENCES, beam, m)
    assert_same(*both.each("joined", beams, log_probs, tokens, 2 * beam))


@pytest.mark.parametrize("stop", ["exact", "first_k"])
@pytest.mark.parametrize("beam", [1, 4, 21])
def test_what_ends_and_what_lives_on_are_the_same(beam: int, stop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both, n = Both(beam, stop, monkeypatch), 2 * beam
    score = both.scores(SENTENCES, n).sort(descending=True).values
    token = both.ids(5, SENTENCES, n)  # a fifth are eos
    longer = Candidates(score, both.ids(beam, SENTENCES, n), token, -score, both.ids(99, SENTENCES, n))
    outputs = both.scores(SENTENCES, beam, absent=0.5).sort(descending=True).values
    ended = FinishedHypotheses(outputs, both.ids(99, SENTENCES, beam), -outputs)
    length = both.ids(20, SENTENCES) + 1
    beams: Any = SimpleNamespace(ended=ended, automaton=None)
    (found, live), (expected, expected_live) = both.each("settled", beams, longer, length)
    assert (expected.score != outputs).any()
    assert_same(found, expected)
    assert_same(live, expected_live)


@pytest.mark.parametrize("stop", ["exact", "best"])
def test_the_same_sentences_are_done(stop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    both = Both(4, stop, monkeypatch)
    length = both.ids(20, SENTENCES)
    live, ended = (both.scores(SENTENCES, 4, absent=0.05).sort(descending=True).values for _ in range(2))
    score = ended / both.space.penalties[length + 1, None]
    beams: Any = SimpleNamespace(
        score=3 * live, ended=FinishedHypotheses(score, length, score), length=length, limit=length + 7
    )
    found, expected = both.each("over", beams)
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
