"""Search over the Transformer's cached steps: neither the batch nor the cache changes anything."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from harness.folders import DATA
from harness.reference_operators import use_references
from harness.search_calls import find, find_queued
from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.model import Memory, Seq2Seq, State
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

pytestmark = pytest.mark.usefixtures("plugin_operators")

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
    found = find(search, model, src, src == VOCAB.pad, VOCAB, nbest=beam)
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


@pytest.mark.parametrize("beam", [1, 4])
def test_starting_tokens_are_fed_before_fused_steps(beam: int) -> None:
    """Sentences with starting tokens of their own, among others, as where every prefix is run at every step."""
    vocab = Vocab(src=60, tgt=60, joint=True, bos=3, starting_tokens=(3, 9))
    starts = [(), (3, 10), (0,), (3, 11, 12), (), (3, 10)]
    search = BeamSearch(BeamConfig(beam=beam, max_len_a=1.0, max_len_b=8))

    def found(model: Seq2Seq) -> list[list[list[int]]]:
        sentences = zip(lines(6), starts, strict=True)
        queue = FixedQueue(
            [SourceSentence(i, [*ids, 3], starting_tokens=s) for i, (ids, s) in enumerate(sentences)], 24
        )
        return [[h.tokens for h in hypotheses] for hypotheses in find_queued(search, model, queue, vocab, nbest=beam)]

    model = small()
    prepack(model, "native", "none")
    assert found(model) == found(small(Uncached))


SENTENCES = DATA / "multi30k/test_2016_flickr.en"


@pytest.mark.slow
@pytest.mark.skipif(not SENTENCES.exists(), reason=f"no {SENTENCES}")
@pytest.mark.parametrize("beam", [1, 4, 21])
def test_real_sentences_come_out_as_from_the_search_without_any_cache(beam: int) -> None:
    """In a stream where sentences come and go, each as when it is searched alone and every prefix is run anew."""
    text = SENTENCES.read_text(encoding="utf-8").splitlines()[:120]
    inputs = [[4 + sum(word.encode()) % 56 for word in line.split()] for line in text]
    search, cached, uncached = BeamSearch(BeamConfig(beam=beam, max_len_b=3)), small(), small(Uncached)
    queue = FixedQueue((SourceSentence(i, [*ids, VOCAB.eos]) for i, ids in enumerate(inputs)), 100)
    found = find_queued(search, cached, queue, VOCAB)
    for place, ids in enumerate(inputs):
        src = torch.tensor([[*ids, VOCAB.eos]])
        (alone,) = find(search, uncached, src, src == VOCAB.pad, VOCAB)
        assert found[place][0].tokens == alone[0].tokens
        assert found[place][0].score == pytest.approx(alone[0].score, rel=1e-4)


class NeverTwice:
    """No symbol follows itself: state [B, K, 1] is the newest."""

    def start(self, src: Tensor, pad: Tensor, limit: Tensor) -> Tensor:
        return torch.zeros(len(src), 1, 1, dtype=torch.long)

    def allowed(self, state: Tensor) -> Tensor:
        return torch.arange(VOCAB.tgt) != state

    def advance(self, state: Tensor, token: Tensor) -> Tensor:
        return token[..., None]


@pytest.mark.parametrize("constraint", [None, NeverTwice()], ids=["free", "constrained"])
@pytest.mark.parametrize("beam", [1, 4, 21])
@pytest.mark.parametrize("native", [True, False], ids=["native", "torch"])
def test_a_translation_does_not_depend_on_who_came_before(
    beam: int, constraint: NeverTwice | None, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences take the places of finished ones, in any order and at any step: every hypothesis is as if alone."""
    if not native:
        use_references(monkeypatch)
    model, inputs = small(), lines(12)
    search, batches = BeamSearch(BeamConfig(beam=beam, max_len_a=1.0, max_len_b=8)), []
    encode = model.encode
    model.encode = lambda src, pad: batches.append(len(src)) or encode(src, pad)  # type: ignore[method-assign,func-returns-value]

    def streamed(order: Sequence[int], n_tokens: int) -> list[list[list[int]]]:
        queue = FixedQueue([SourceSentence(i, [*inputs[i], VOCAB.eos]) for i in order], n_tokens)
        found = find_queued(search, model, queue, VOCAB, constraint=constraint, nbest=beam)
        return [[h.tokens for h in hypotheses] for hypotheses in found]

    together = streamed(range(12), 1000)
    assert batches.pop() == 12
    assert not batches
    for order, n_tokens in ((range(12), 40), (range(11, -1, -1), 30), ((5, 2, 9, 0, 7, 11, 4, 1, 10, 3, 8, 6), 1)):
        assert streamed(order, n_tokens) == together
        assert len(batches) > 2
        batches.clear()
    if constraint:
        assert all(a != b for hypotheses in together for h in hypotheses for a, b in itertools.pairwise(h))
