"""The contract's own parts: trees of tensors, states, and what a model that overrides nothing does."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from s2s.model import Memory, Seq2Seq, State, evaluating
from s2s.tensors import map_tensors

Pair = namedtuple("Pair", "a b")


@dataclass
class Box:
    inner: object
    name: str = "box"


def test_map_tensors_keeps_the_shape_of_the_tree() -> None:
    one = torch.ones(1)
    tree = {"x": [one, None], "y": (Pair(one, "text"), Box((one,))), "z": 3}
    mapped = map_tensors(lambda t: t + 1, tree)
    assert mapped["x"][0].item() == 2
    assert mapped["x"][1] is None
    assert isinstance(mapped["y"][0], Pair)
    assert (mapped["y"][0].a.item(), mapped["y"][0].b) == (2, "text")
    assert (mapped["y"][1].inner[0].item(), mapped["y"][1].name, mapped["z"]) == (2, "box", 3)
    assert one.item() == 1


def test_select_moves_hypotheses_and_leaves_sentences() -> None:
    sentence, hypothesis = torch.arange(2), torch.arange(12).view(2, 3, 2)
    state = State(sentence, [hypothesis]).reorder(torch.tensor([[2, 2], [0, 1]]))
    assert state.sentence is sentence
    assert state.hypothesis[0].tolist() == [[[4, 5], [4, 5]], [[6, 7], [8, 9]]]


@pytest.mark.parametrize("rows", [[1], [2, 0], [1, 1, 0]])
def test_keep_moves_both(rows: list[int]) -> None:
    state = State((torch.arange(3),), {"cache": torch.arange(6).view(3, 2)}).select(torch.tensor(rows))
    assert state.sentence[0].tolist() == rows
    assert state.hypothesis["cache"].tolist() == [[2 * r, 2 * r + 1] for r in rows]


def test_memory_of_a_plugin_keeps_its_own_fields() -> None:
    @dataclass
    class Wider(Memory):
        lengths: Tensor

    memory = Wider(torch.zeros(3, 2, 4), torch.zeros(3, 2).bool(), torch.tensor([7, 8, 9])).select(torch.tensor([2]))
    assert memory.lengths.tolist() == [9]
    assert memory.hidden.shape == (1, 2, 4)


class Sum(Seq2Seq):
    """Logits are the sums of the source and of the prefix."""

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        return Memory(src.masked_fill(pad, 0).float(), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        total = memory.hidden.sum(1)[:, None] + tgt.cumsum(1)
        return torch.stack([total, -total], dim=-1)


def test_a_model_and_its_state_promise_nothing_that_they_do_not_declare() -> None:
    model = Sum()
    assert (model.supports_packing, model.returns_log_probs, model.ignores_labels, model.max_len) == (
        False,
        False,
        False,
        None,
    )
    assert (State.supports_join, State.supports_capture) == (False, False)
    assert model.forward_operations([1], [1]) is None
    assert model.vocab_rows() is None
    assert model.attention_maps(torch.ones(1, 2), torch.zeros(1, 2).bool(), torch.ones(1, 1)) == []


def test_steps_by_default_decode_the_whole_prefix_of_every_hypothesis() -> None:
    model = Sum()
    src = torch.tensor([[5, 6, 3], [7, 3, 0]])
    memory = model.encode(src, src == 0)
    state = model.start(memory)
    assert state.hypothesis.shape == (2, 1, 0)
    logits, state = model.step(torch.tensor([[2], [2]]), state)
    assert logits.tolist() == [[[16, -16]], [[12, -12]]]
    state = state.reorder(torch.tensor([[0, 0, 0], [0, 0, 0]]))
    logits, state = model.step(torch.tensor([[1, 2, 3], [4, 5, 6]]), state)
    assert logits[..., 0].tolist() == [[17, 18, 19], [16, 17, 18]]
    assert state.hypothesis[1].tolist() == [[2, 4], [2, 5], [2, 6]]
    whole = model.project(model(src, src == 0, torch.tensor([[2, 1], [2, 4]])))
    assert torch.equal(whole[:, -1], logits[:, 0])


def test_sentences_join_with_zeros_where_their_outputs_are_shorter() -> None:
    one, two = State(torch.tensor([[1]]), torch.ones(1, 2, 1)), State(torch.tensor([[2]]), torch.ones(1, 2, 2))
    joined = one.join(two)
    assert joined.sentence.tolist() == [[1], [2]]
    assert joined.hypothesis.tolist() == [[[1, 0], [1, 0]], [[1, 1], [1, 1]]]


def test_attention_that_a_model_gives_is_one_head_of_its_maps() -> None:
    weights = torch.rand(2, 3, 4)

    class Attending(Sum):
        def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor:
            return weights

    (found,) = Attending().attention_maps(torch.ones(2, 4), torch.zeros(2, 4).bool(), torch.ones(2, 3))
    assert found[:4] == ("cross", 0, "tgt", "src")
    assert torch.equal(found.weights, weights.unsqueeze(1))


def test_modules_come_back_in_the_modes_in_which_they_were() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())

    def fail() -> None:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [module.training for module in model.modules()] == [True, True, False]
