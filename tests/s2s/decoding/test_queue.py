"""Which sentences are admitted, and what is kept of those that left."""

from __future__ import annotations

import sys

import pytest
import torch

from harness.open_queue import OpenQueue
from s2s.decoding import SourceSentence
from s2s.decoding.history import ROOT, History
from s2s.decoding.queue import FixedQueue
from s2s.tensors import host_copies, to_device


def queue(*lengths: int, n_tokens: int) -> FixedQueue:
    return FixedQueue((SourceSentence(i, [4] * n) for i, n in enumerate(lengths)), n_tokens)


def places(sources: list[SourceSentence]) -> list[int]:
    return [source.index for source in sources]


def test_sentences_are_let_in_up_to_the_budget_and_in_order() -> None:
    waiting = queue(5, 5, 9, 1, n_tokens=12)
    assert places(waiting.admit(0)) == [0, 1]
    assert places(waiting.admit(3)) == [2]
    assert places(waiting.admit(9)) == [3]
    assert places(waiting.admit(0)) == []


def test_one_that_is_longer_than_the_budget_goes_alone() -> None:
    waiting = queue(50, 1, n_tokens=12)
    assert places(waiting.admit(1)) == []
    assert places(waiting.admit(0)) == [0]
    assert places(waiting.admit(50)) == []
    assert places(waiting.admit(0)) == [1]


@pytest.mark.parametrize(("in_use", "admitted"), [(9, 3), (10, 0)])
def test_no_sentence_is_admitted_unless_a_quarter_is_free(in_use: int, admitted: int) -> None:
    assert len(queue(1, 1, 1, 1, n_tokens=12).admit(in_use)) == admitted


def test_the_history_gives_back_what_was_said() -> None:
    history = History()
    first = history.add(torch.tensor([[4, 5], [6, 7]]), torch.tensor([[-1.0, -2], [-3, -4]]), torch.full((2, 2), ROOT))
    parents = torch.stack([first[0, [1, 1]], first[1, [0, 1]]])
    second = history.add(torch.tensor([[8, 9], [8, 9]]), torch.tensor([[-5.0, -6], [-7, -8]]), parents)
    assert history.backtrace(int(second[0, 1])) == ([5, 9], [-2.0, -6.0])
    assert history.backtrace(int(second[1, 0])) == ([6, 8], [-3.0, -7.0])
    assert history.backtrace(int(first[1, 1])) == ([7], [-4.0])
    assert history.backtrace(ROOT) == ([], [])


def test_the_history_drops_steps_that_no_hypothesis_descends_from() -> None:
    history, node = History(), torch.full((1, 1), ROOT)
    for step in range(10):
        node = history.add(torch.full((1, 1), step), torch.zeros(1, 1), node if step != 6 else torch.full((1, 1), ROOT))
    history.drop_before(6)
    assert len(history.steps) == 4
    assert history.backtrace(int(node)) == ([6, 7, 8, 9], [0.0] * 4)
    history.drop_before(100)
    assert len(history.steps) == 1, "the newest stay"


def test_several_steps_may_be_added_as_one_that_were_numbered_elsewhere() -> None:
    history = History()
    first = history.add(torch.tensor([[4]]), torch.tensor([[-1.0]]), torch.tensor([[ROOT]]))
    history.add_steps(torch.tensor([[5], [6]]), torch.tensor([[-2.0], [-3.0]]), torch.tensor([[int(first)], [1]]))
    assert history.n_nodes == 3
    assert history.backtrace(2) == ([4, 5, 6], [-1.0, -2.0, -3.0])
    last = history.add(torch.tensor([[7]]), torch.tensor([[-4.0]]), torch.tensor([[1]]))
    assert last.tolist() == [[3]]
    assert history.backtrace(3) == ([4, 5, 7], [-1.0, -2.0, -4.0])


def test_steps_end_where_the_queue_admits_sentences_again_and_not_once_it_has_ended() -> None:
    waiting = queue(6, 4, n_tokens=12)
    assert waiting.stop_threshold == 9
    assert places(waiting.admit(10)) == []
    assert places(waiting.admit(0)) == [0, 1]
    assert waiting.stop_threshold == 0


class Patient(OpenQueue):
    """Notes whether it may wait for a sentence to come."""

    def __init__(self, *lengths: int, n_tokens: int) -> None:
        super().__init__((SourceSentence(i, [4] * n) for i, n in enumerate(lengths)), n_tokens)
        self.waits: list[bool] = []

    def peek(self, *, wait: bool) -> SourceSentence | None:
        self.waits.append(wait)
        return super().peek(wait=wait)


def test_only_an_empty_batch_waits_for_a_sentence() -> None:
    waiting = Patient(2, 2, 2, n_tokens=12)
    assert places(waiting.admit(1)) == [0, 1, 2]
    assert waiting.waits == [False] * 4
    waiting = Patient(2, 2, n_tokens=12)
    assert places(waiting.admit(0)) == [0, 1]
    assert waiting.waits == [True, False, False]


def test_a_queue_whose_sentences_may_come_and_go_is_asked_after_every_step() -> None:
    assert OpenQueue([], 1).steps_at_once == 1
    assert OpenQueue([], 1).stop_threshold == sys.maxsize
    assert OpenQueue([], 1).take_cancelled() == ()


def test_a_queue_of_sentences_that_are_all_known_lets_steps_go_on() -> None:
    assert queue(1, n_tokens=1).steps_at_once == sys.maxsize
    assert queue(1, n_tokens=1).take_cancelled() == ()


def test_values_come_to_the_host_bit_for_bit_in_one_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a device: the tensors are packed into one, copied, and taken apart again."""
    values = [
        torch.tensor([[-1.5, -torch.inf, torch.nan], [0.1, -0.0, 1e-42]]),
        torch.tensor([2**62 + 1, -1]),
        torch.tensor([[True], [False]]),
        torch.zeros(0, 3),
    ]
    n_copies: list[int] = []
    copy = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: n_copies.append(x.numel()) or copy(x))
    results = host_copies(values)
    monkeypatch.undo()
    assert n_copies == [10]
    for x, y in zip(values, results, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.contiguous().view(torch.uint8).tolist() == y.contiguous().view(torch.uint8).tolist()


def test_what_the_host_knows_comes_without_a_transfer() -> None:
    """From a device without data, from which nothing can be read."""
    known = to_device(torch.tensor([2, 3]), torch.device("meta"))
    assert [x.tolist() for x in host_copies([known, torch.tensor([4])])] == [[2, 3], [4]]
    with pytest.raises(NotImplementedError):
        host_copies([known, known + 1])


def test_what_inference_mode_has_made_is_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a device: writes to it are not counted."""
    with torch.inference_mode():
        x = torch.tensor([1, 2])
        monkeypatch.setattr(torch.Tensor, "is_cpu", False)
        first = host_copies([x])[0].tolist()
        x.add_(1)
        second = host_copies([x])[0].tolist()
    monkeypatch.undo()
    assert (first, second) == ([1, 2], [2, 3])


def test_the_history_moves_its_steps_to_the_host_beside_other_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    history, device = History(), torch.device("meta")
    first = history.add(torch.tensor([[4, 5]]), torch.tensor([[-1.0, -2]]), torch.full((1, 2), ROOT))
    history.add(torch.tensor([[6, 7]]), torch.tensor([[-3.0, -4]]), first)
    fetched: list[int] = []

    def host(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        fetched.append(len(tensors))
        moved = [torch.tensor([[8, 9]]), torch.tensor([[-5.0, -6]]), first] if len(tensors) == 4 else []
        return [*moved, *tensors[len(moved) :]]

    history.steps[1].token = history.steps[1].token.to(device)
    monkeypatch.setattr("s2s.decoding.history.host_copies", host)
    other = torch.ones(2)
    assert history.fetch(other)[0] is other
    assert history.fetch(other)[0] is other
    assert fetched == [4, 1], "a step moves once"
    assert history.backtrace(3) == ([5, 9], [-2.0, -6.0])
