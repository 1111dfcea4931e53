from __future__ import annotations

import pytest
import torch
from torch import nn

from s2s.errors import ConfigError
from s2s.task import Vocab
from s2s_fine_tuning.vocab_rows import match_tokens, rows_by_size, take_rows


def test_a_token_is_found_by_its_name_wherever_it_stands() -> None:
    assert match_tokens(["<pad>", "c", "x", "a"], ["<pad>", "a", "b", "c"]).tolist() == [0, 3, -1, 1]


def test_the_most_specific_name_that_the_other_run_has_counts() -> None:
    two_tasks = [("parse: the", "the"), ("translate: the", "the"), ("translate: dog", "dog")]
    assert match_tokens(two_tasks, two_tasks[::-1]).tolist() == [2, 1, 0]
    assert match_tokens(two_tasks, ["dog", "the"]).tolist() == [1, 1, 0], "a run of one task"
    assert match_tokens(["the", "cat"], two_tasks).tolist() == [0, -1], "and the other way round"
    assert match_tokens(["the"], []).tolist() == [-1]


def test_rows_follow_their_tokens_and_new_ones_stay() -> None:
    own, other = torch.zeros(3, 2), torch.tensor([[1.0, 1.0], [2.0, 2.0]], dtype=torch.float64)
    taken = take_rows(own, other, torch.tensor([1, -1, 0]))
    assert taken.tolist() == [[2, 2], [0, 0], [1, 1]]
    assert taken.dtype == own.dtype
    assert not own.any(), "the original is left alone"
    assert take_rows(torch.zeros(3), torch.tensor([5.0, 6.0]), torch.tensor([1, -1, 0])).tolist() == [6, 0, 5], "a bias"


def modules(**parts: nn.Module) -> nn.Module:
    return nn.ModuleDict(parts)


def test_sizes_tell_embeddings_and_the_projection() -> None:
    model = modules(a=nn.Embedding(7, 3), b=nn.Embedding(9, 3), inner=nn.Linear(3, 5), out=nn.Linear(3, 9))
    expected = {"a.weight": "src", "b.weight": "tgt", "out.weight": "tgt", "out.bias": "tgt"}
    assert rows_by_size(model, Vocab(src=7, tgt=9), "x") == expected
    joint = modules(a=nn.Embedding(9, 3), b=nn.Embedding(9, 3), out=nn.Linear(3, 9, bias=False))
    assert set(rows_by_size(joint, Vocab(src=9, tgt=9, joint=True), "x").values()) == {"tgt"}, "one vocabulary"


@pytest.mark.parametrize(
    ("model", "vocab"),
    [
        (modules(a=nn.Embedding(9, 3), out=nn.Linear(3, 9)), Vocab(src=9, tgt=9)),
        (modules(a=nn.Embedding(7, 3), places=nn.Embedding(7, 3), out=nn.Linear(3, 9)), Vocab(src=7, tgt=9)),
        (modules(a=nn.Embedding(7, 3), inner=nn.Linear(3, 9), out=nn.Linear(9, 9)), Vocab(src=7, tgt=9)),
        (modules(inner=nn.Linear(3, 3)), Vocab(src=7, tgt=9)),
    ],
    ids=["two vocabularies of one size", "positions of a vocabulary's size", "a hidden layer of its size", "nothing"],
)
def test_sizes_that_do_not_tell_are_an_error(model: nn.Module, vocab: Vocab) -> None:
    with pytest.raises(ConfigError, match=r"arch=x does not say .*define Seq2Seq\.vocab_rows"):
        rows_by_size(model, vocab, "x")
