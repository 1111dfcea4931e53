"""Search over the Transformer's cached steps: the batch changes nothing, and the cache changes nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from s2s.decoding import BeamConfig
from s2s.decoding.search import BeamSearch
from s2s.model import Memory, Seq2Seq, State
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

VOCAB = Vocab(src=60, tgt=60, joint=True)


class Uncached(Transformer):
    """The same weights, with the default start and step: the whole prefix is run at every step."""

    def start(self, memory: Memory) -> State:
        return Seq2Seq.start(self, memory)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        return Seq2Seq.step(self, token, state)


def small(kind: type[Transformer] = Transformer) -> Transformer:
    torch.manual_seed(5)
    config = TransformerConfig(n_encoder_layers=2, n_decoder_layers=2, d_model=32, d_ff=64, n_heads=4)
    model = kind(config, VOCAB).eval()
    for parameter in model.parameters():
        parameter.data *= 1.3  # an untrained model hardly prefers anything: make it choose
    return model


def lines(n: int) -> list[list[int]]:
    draw = random.Random(1)
    return [[draw.randrange(4, 60) for _ in range(draw.choice([1, 2, 5, 9, 17]))] for _ in range(n)]


def outputs(model: Seq2Seq, beam: int, inputs: Sequence[Sequence[int]]) -> list[list[list[int]]]:
    src = pad_sequence([torch.tensor([*line, VOCAB.eos]) for line in inputs], batch_first=True)
    search = BeamSearch(BeamConfig(beam=beam, max_len_a=1.0, max_len_b=8))
    found = search(model, src, src == VOCAB.pad, VOCAB, nbest=beam)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("beam", [1, 4, 21])
def test_a_translation_does_not_depend_on_its_batch(beam: int) -> None:
    """Alone or with neighbours of other lengths, in any order, every hypothesis is the same to the symbol."""
    model, inputs = small(), lines(10)
    together = outputs(model, beam, inputs)
    assert len({len(hypotheses[0]) for hypotheses in together}) > 2
    assert together == [outputs(model, beam, [line])[0] for line in inputs]
    assert together[::-1] == outputs(model, beam, inputs[::-1])
    assert together[1::3] == outputs(model, beam, inputs[1::3])


@pytest.mark.parametrize("beam", [1, 4])
def test_the_cache_changes_nothing(beam: int) -> None:
    inputs = lines(6)
    assert outputs(small(), beam, inputs) == outputs(small(Uncached), beam, inputs)
