"""The contract's own parts: trees of tensors, states, and batches."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from s2s.batch import make_batch
from s2s.model import Memory, State
from s2s.task import Vocab
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
    state = State((torch.arange(3),), {"cache": torch.arange(6).view(3, 2)}).keep(torch.tensor(rows))
    assert state.sentence[0].tolist() == rows
    assert state.hypothesis["cache"].tolist() == [[2 * r, 2 * r + 1] for r in rows]


def test_memory_of_a_plugin_keeps_its_own_fields() -> None:
    @dataclass
    class Wider(Memory):
        lengths: Tensor

    memory = Wider(torch.zeros(3, 2, 4), torch.zeros(3, 2).bool(), torch.tensor([7, 8, 9])).keep(torch.tensor([2]))
    assert memory.lengths.tolist() == [9]
    assert memory.hidden.shape == (1, 2, 4)


def test_a_batch_pads_and_shifts() -> None:
    vocab = Vocab(src=20, tgt=20, pad=0, bos=2, eos=3)
    batch = make_batch([([5, 6], [7]), ([], [8, 9, 10])], vocab)
    assert batch.src.tolist() == [[5, 6, 3], [3, 0, 0]]
    assert batch.src_pad.tolist() == [[False, False, False], [False, True, True]]
    assert batch.tgt_in.tolist() == [[2, 7, 0, 0], [2, 8, 9, 10]]
    assert batch.tgt_out.tolist() == [[7, 3, 0, 0], [8, 9, 10, 3]]
    assert batch.tgt_pad.tolist() == [[False, False, True, True], [False] * 4]
    assert (batch.n_tokens, batch.n_src_tokens) == (6, 4)


def test_a_batch_moves_whole() -> None:
    batch = make_batch([([5], [6])], Vocab(src=9, tgt=9)).to(torch.device("meta"))
    tensors = (batch.src, batch.src_pad, batch.tgt_in, batch.tgt_out, batch.tgt_pad)
    assert all(t.device.type == "meta" for t in tensors)
    assert batch.n_tokens == 2
