"""A guide's information as vectors, against sums by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from harness.monotonic_guide import N_KINDS, OneByOne, guided
from s2s.nn.guidance import Guidance
from s2s.task import Vocab

if TYPE_CHECKING:
    from torch import Tensor

D_MEMORY, WIDTHS = 4, (2, 3)
N_PLACES = 3
PART = 6
SRC = torch.tensor([[5, PART, 7, 3], [7, 3, 0, 0]])
FIRSTS = [[0, 2, 3], [0, 1]]
"""Positions of the tokens that begin words, eos among them"""


class TwoKinds(OneByOne):
    """The second kind is whether the number of tokens is odd."""

    kinds = (N_KINDS, 2)

    def read(self, state: Tensor) -> tuple[Tensor, Tensor]:
        places, kinds = super().read(state)
        return places, torch.cat([kinds, state % 2], dim=-1)


def build(*, pooled: bool = False) -> Guidance:
    torch.manual_seed(0)
    vocab = Vocab(src=9, tgt=9, word_begins=[i != PART for i in range(9)])
    vocab = replace(vocab, guide=TwoKinds(vocab.bos))
    guidance = Guidance(vocab, "stack", D_MEMORY, WIDTHS, pooled=pooled, dropout=0.0)
    for parameter in guidance.parameters():
        torch.nn.init.normal_(parameter)
    return guidance


def vector(guidance: Guidance, words: Tensor, n: int) -> Tensor:
    """words [W, M] of a source, n tokens of an output -> [E]"""
    assert guidance.kinds is not None
    weight, bias = (x.unflatten(0, (N_PLACES, sum(WIDTHS))) for x in (guidance.maps.weight, guidance.maps.bias))
    found = guidance.kinds[n % N_KINDS] + guidance.kinds[N_KINDS + n % 2]
    for place, word in enumerate((n, n - 1, 0 if n else -1)):
        at_word = 0 <= word < len(words)
        found = found + (weight[place] @ words[word] + bias[place] if at_word else guidance.nothing[place])
    return found


@pytest.mark.parametrize("pooled", [False, True])
def test_vectors_are_those_of_the_words_at_the_places_and_of_no_word_elsewhere(pooled: bool) -> None:
    guidance = build(pooled=pooled)
    memory = torch.randn(2, 3 if pooled else 4, D_MEMORY)
    words = [row[: len(at)] if pooled else row[at] for row, at in zip(memory, FIRSTS, strict=True)]
    tgt = torch.tensor([[2, 7, 8, 4, 5], [2, 8, 8, 4, 4]])
    whole = torch.cat(guidance(tgt, guidance.begin(memory, SRC, SRC == 0)), dim=-1)
    expected = torch.stack([torch.stack([vector(guidance, of_row, n) for n in range(5)]) for of_row in words])
    torch.testing.assert_close(whole, expected)


def test_steps_of_a_search_give_what_a_whole_output_gives() -> None:
    guidance, tgt = build(), torch.tensor([[2, 7, 8], [2, 8, 8]])
    guided_source = guidance.begin(torch.randn(2, 4, D_MEMORY), SRC, SRC == 0)
    whole, state = guidance(tgt, guided_source), guided_source.start
    for t, token in enumerate(tgt.split(1, dim=1)):
        vectors, state = guidance.step(token, guided_source.source, state)
        for of_step, of_whole in zip(vectors, whole, strict=True):
            torch.testing.assert_close(of_step, of_whole[:, t : t + 1])
    assert state.tolist() == [[[2]], [[2]]]


def test_the_output_is_a_layer_of_its_own_on_what_the_guide_says() -> None:
    guidance = build()
    hidden, said = torch.randn(2, 2, 5, WIDTHS[1])
    expected = (hidden @ guidance.out.weight.T + guidance.out.bias + said).tanh()
    torch.testing.assert_close(guidance.read_out(hidden, said), expected)


def test_with_guide_words_kinds_and_further_places_are_left_out() -> None:
    guidance = Guidance(guided(Vocab(src=9, tgt=9)), "words", 4, WIDTHS, pooled=False, dropout=0.0)
    assert guidance.maps.out_features == 2 * sum(WIDTHS)
    assert guidance.kinds is None
