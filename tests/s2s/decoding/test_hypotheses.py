"""Sentences that join others with more hypotheses, and the request of a search."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.table_model import JoiningTable
from s2s.decoding import BeamConfig, SearchRequest, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.model_scores import log_probs
from s2s.decoding.queue import FixedQueue
from s2s.task import Vocab

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.decoding import BatchConstraint

VOCAB = Vocab(src=9, tgt=9)
CPU = torch.device("cpu")


class Counter:
    """A constraint that allows everything, and counts from 5."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.full((len(src), 1, 1), 5)

    def allowed(self, state: Tensor) -> Tensor:
        return torch.ones(*state.shape[:2], VOCAB.tgt, dtype=torch.bool)

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return state + 1


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("first", ["many", "one"])
def test_a_sentence_before_its_first_step_has_dead_hypotheses_beside_others(first: str, constrained: bool) -> None:
    model = JoiningTable(9)
    queue, constraint = FixedQueue([], 1), Counter() if constrained else None
    search = BeamSearch(BeamConfig(beam=3, max_len_a=0.0, max_len_b=6))
    run = search.begin(SearchRequest(model=model, vocab=VOCAB, queue=queue, device=CPU, constraint=constraint))
    many = search.step(search.start(run, [SourceSentence(i, [4 + i, 5, 3]) for i in range(2)]))
    one = search.start(run, [SourceSentence(2, [8, 8, 3])])
    both = many.join(one) if first == "many" else one.join(many)
    at = 2 if first == "many" else 0
    rows = [0, 1] if first == "many" else [1, 2]
    assert [sentence.index for sentence in both.sentences] == ([0, 1, 2] if first == "many" else [2, 0, 1])
    assert (both.n_hypotheses, both.slack) == (3, min(one.slack, many.slack))
    assert both.score[at].tolist() == [0, -torch.inf, -torch.inf]
    assert both.token[at].tolist() == one.token[0].tolist() * 3
    assert both.node[at].tolist() == one.node[0].tolist() * 3
    assert both.state.hypothesis[at].tolist() == one.state.hypothesis[0].tolist() * 3
    for name in ("score", "token", "node"):
        assert torch.equal(getattr(both, name)[rows], getattr(many, name))
    assert torch.equal(both.state.hypothesis[rows], many.state.hypothesis)
    assert (both.length[at], both.length[rows].tolist()) == (0, [1, 1])
    if not constrained:
        assert both.constraint_state is None
        return
    assert both.constraint_state is not None
    assert both.constraint_state[at].tolist() == [[5]] * 3
    assert both.constraint_state[rows].tolist() == [[[6]] * 3] * 2


class Recorded:
    """A sentence's constraint, whose batch has an automaton that says what it was made for."""

    def for_batch(self, every: BatchConstraint) -> Any:
        made_for = lambda constraints: SimpleNamespace(automaton=(every.automaton, list(constraints)))  # noqa: E731
        return SimpleNamespace(for_sentences=made_for)


def test_sentences_come_in_batches_with_the_constraint_on_exactly_these() -> None:
    recorded, constraint = Recorded(), Counter()
    ids = [[7, 8, 3], [5, 3], [4, 4, 4, 3]]
    sentences = [SourceSentence(i, of, recorded if i == 2 else None) for i, of in enumerate(ids)]
    queue = FixedQueue(sentences, 5)
    request = SearchRequest(model=JoiningTable(9), vocab=VOCAB, queue=queue, device=CPU, constraint=constraint)
    first, second = request.batches()
    assert [sentence.index for sentence in first.sentences] == [0, 1]
    assert first.src.tolist() == [[7, 8, 3], [5, 3, 0]]
    assert first.pad.tolist() == [[False] * 3, [False, False, True]]
    assert first.constraint is constraint
    assert second.src.tolist() == [ids[2]]
    assert second.constraint == (constraint, [recorded])
    assert SearchRequest.from_batch(request.model, second.src, second.pad, VOCAB).nbest == request.nbest == 1


@pytest.mark.parametrize("returns_log_probs", [False, True])
def test_a_model_gives_logits_or_log_probabilities(returns_log_probs: bool) -> None:
    model: Any = JoiningTable(9)
    model.returns_log_probs = returns_log_probs
    logits = torch.tensor([[[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]]], dtype=torch.bfloat16)
    expected = logits.float() if returns_log_probs else logits.double().log_softmax(-1).float()
    torch.testing.assert_close(log_probs(model, logits), expected)
