"""How decoding starts: any tokens, one or several, the same for all sentences or a sentence's own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.every_output import every_output
from harness.reference_search import assert_same
from harness.search_calls import find_queued
from harness.table_model import JoiningTable, Table
from s2s.batch import make_batch
from s2s.data.packing import pack
from s2s.decoding import BeamConfig, GreedyConfig, SampleConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch, greedy
from s2s.decoding.queue import FixedQueue
from s2s.errors import DataError, PluginError
from s2s.generation.scoring import score_ids
from s2s.objective import rows_without_eos
from s2s.task import Encoded, Vocab
from s2s_search.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence


VOCABS = {
    "bos": Vocab(src=9, tgt=7),
    "bos is eos": Vocab(src=9, tgt=7, bos=3, eos=3),
    "start is eos": Vocab(src=9, tgt=7, starting_tokens=(3,)),
    "eos and a code": Vocab(src=9, tgt=7, bos=3, starting_tokens=(3, 6)),
    "start is pad": Vocab(src=9, tgt=7, bos=0),
    "three": Vocab(src=9, tgt=7, starting_tokens=(5, 2, 4)),
}
SOURCES = [[5, 6], [7]]


def queue_of(vocab: Vocab, starts: Sequence[Sequence[int]], sources: Sequence[list[int]] = SOURCES) -> FixedQueue:
    pairs = zip(sources, starts, strict=True)
    return FixedQueue(
        [SourceSentence(i, [*ids, vocab.eos], starting_tokens=s) for i, (ids, s) in enumerate(pairs)], 1000
    )


@pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)
@pytest.mark.parametrize("kind", [Table, JoiningTable])
def test_a_wide_beam_finds_all_outputs_in_order(vocab: Vocab, kind: type[Table]) -> None:
    config, model = BeamConfig(beam=85, max_len_b=1), kind(vocab.tgt, seed=3)
    outputs = find_queued(BeamSearch(config), model, queue_of(vocab, [(), ()]), vocab, nbest=20)
    for hypotheses, source in zip(outputs, SOURCES, strict=True):
        assert_same(hypotheses, every_output(model, source, config, vocab, vocab.starting_tokens)[:20])


@pytest.mark.parametrize("kind", [Table, JoiningTable])
@pytest.mark.parametrize("beam", [2, 85])
def test_each_sentence_may_have_starting_tokens_of_its_own(kind: type[Table], beam: int) -> None:
    """Also of different numbers, among sentences that come and go; each is what it is alone."""
    vocab, config = VOCABS["eos and a code"], BeamConfig(beam=beam, max_len_b=1)
    starts = [(), (3, 4), (6,), (3, 4, 5), (), (4,), (3, 5)]
    sources = [[5, 6], [7], [4, 4], [8], [7], [5], [6, 6]]
    model, search = kind(vocab.tgt, seed=3), BeamSearch(config)
    queue = queue_of(vocab, starts, sources)
    queue.n_tokens, queue._admission_threshold = 9, 6
    outputs = find_queued(search, model, queue, vocab, nbest=2)
    for hypotheses, source, start in zip(outputs, sources, starts, strict=True):
        (alone,) = find_queued(search, model, queue_of(vocab, [start], [source]), vocab, nbest=2)
        assert hypotheses == alone
        if beam == 85:
            assert_same(hypotheses, every_output(model, source, config, vocab, start or vocab.starting_tokens)[:2])


@pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)
def test_greedy_and_sampling_begin_with_them(vocab: Vocab) -> None:
    """Greedy takes the most probable token; all samples from the single most probable token are the same output."""
    model, sources = Table(vocab.tgt, seed=5), SOURCES
    (best, _) = find_queued(greedy(GreedyConfig(max_len_b=4)), model, queue_of(vocab, [(), ()]), vocab)
    sampling = Sampling(SampleConfig(max_len_b=4, top_k=1))
    (sampled, _) = find_queued(sampling, model, queue_of(vocab, [(), ()]), vocab, nbest=2)
    expected: list[int] = []
    src = torch.tensor([[*sources[0], vocab.eos]])
    memory = model.encode(src, src == vocab.pad)
    while (not expected or expected[-1] != vocab.eos) and len(expected) < 6:
        logits = model.decode(torch.tensor([[*vocab.starting_tokens, *expected]]), memory)[0, -1].detach().clone()
        logits[list(vocab.never_output)] = -torch.inf
        expected.append(int(logits.argmax()))
    tokens = expected[:-1] if expected[-1] == vocab.eos else expected
    assert [best[0].tokens, *(one.tokens for one in sampled)] == [tokens] * 3


@pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)
def test_scores_of_outputs_are_those_of_the_search(vocab: Vocab) -> None:
    """Teacher forcing over the same starting tokens, in a batch of several lengths."""
    model = Table(vocab.tgt, seed=7)
    outputs = find_queued(BeamSearch(BeamConfig(max_len_b=3)), model, queue_of(vocab, [(), ()]), vocab, nbest=4)
    pairs = [Encoded(source, one.tokens) for source, some in zip(SOURCES, outputs, strict=True) for one in some]
    scored = score_ids(model, vocab, pairs, torch.device("cpu"))
    for one, found in zip(itertools.chain(*outputs), scored, strict=True):
        assert found.log_probs == pytest.approx(one.token_log_probs, abs=1e-5)


def test_a_batch_feeds_starting_tokens_and_counts_no_prediction_of_them() -> None:
    vocab = Vocab(src=9, tgt=9, starting_tokens=(3, 7))
    batch = make_batch([([4], [5, 6]), ([4, 4], [8])], vocab)
    assert batch.tgt_in.tolist() == [[3, 7, 5, 6], [3, 7, 8, 0]]
    assert batch.tgt_out.tolist() == [[0, 5, 6, 3], [0, 8, 3, 0]]
    assert batch.tgt_pad.tolist() == [[True, False, False, False], [True, False, False, True]]
    assert batch.n_tokens == int((~batch.tgt_pad).sum()) == 5
    assert rows_without_eos(batch.tgt_out, batch.tgt_pad) == [[5, 6], [8]]


def test_pairs_of_a_batch_may_have_starting_tokens_of_their_own() -> None:
    vocab = Vocab(src=9, tgt=9)
    batch = make_batch([([4], [5]), ([4], [5, 6])], vocab, [(3, 7, 8), (2,)])
    assert batch.tgt_in.tolist() == [[3, 7, 8, 5], [2, 5, 6, 0]]
    assert batch.tgt_out.tolist() == [[0, 0, 5, 3], [5, 6, 3, 0]]


@pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)
def test_packed_pairs_are_those_of_the_padded_batch(vocab: Vocab) -> None:
    pairs = [([4], [5, 6]), ([4, 5], []), ([6], [4])]
    packed, padded = pack(pairs, vocab), make_batch(pairs, vocab)
    lengths = [len(tgt) + len(vocab.starting_tokens) for _, tgt in pairs]
    for name in ("tgt_in", "tgt_out"):
        rows = zip(getattr(padded, name), lengths, strict=True)
        assert getattr(packed, name).tolist() == [token for row, n in rows for token in row[:n].tolist()]
    assert packed.n_tokens == padded.n_tokens == int((~packed.tgt_pad).sum())


def test_no_output_is_longer_than_the_model_can_take() -> None:
    vocab, model = VOCABS["three"], Table(7)
    model.logits.data[:, vocab.eos] = -30.0
    model.max_len = 7
    (one, _) = find_queued(greedy(GreedyConfig()), model, queue_of(vocab, [(), ()]), vocab)
    assert len(one[0].tokens) == 4


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"pad": 3}, "no output would end"),
        ({"starting_tokens": (9,)}, "tokens 0 to 8"),
        ({"starting_tokens": (-1,)}, "tokens 0 to 8"),
    ],
)
def test_a_vocabulary_that_cannot_work_is_refused(options: Any, error: str) -> None:
    with pytest.raises(PluginError, match=error):
        Vocab(src=9, tgt=9, **options)


@pytest.mark.parametrize(("start", "error"), [((9,), "tokens 0 to 6"), ((4,) * 7, "leave no room")])
def test_starting_tokens_that_cannot_work_are_refused(start: tuple[int, ...], error: str) -> None:
    vocab, model = VOCABS["bos"], Table(7)
    model.max_len = 7
    with pytest.raises(DataError, match=error):
        find_queued(greedy(GreedyConfig()), model, queue_of(vocab, [start], [[4]]), vocab)
