"""The decoder's step as one call, against the layers one by one and against whole prefixes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.open_queue import OpenQueue
from harness.packed_models import VARIANTS, model, needs_bytes, recorded_steps, source_rows, sources
from harness.search_calls import InBatches, StepByStep, find_queued
from s2s.backend.linear import prepack
from s2s.decoding import BeamConfig, SourceSentence
from s2s.decoding.beam_search import BeamSearch
from s2s.decoding.queue import FixedQueue
from s2s.task import Vocab
from s2s_cpu import replacing
from s2s_cpu.library import native_library
from s2s_cpu.prepacked import has_linear
from s2s_testing import VOCAB, assert_state_reorders, assert_step_is_decode
from s2s_transformer import TransformerConfig
from s2s_transformer.decoding import TransformerState
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from s2s.decoding import Hypothesis

pytestmark = [
    pytest.mark.skipif(not has_linear(), reason=native_library().reason),
    pytest.mark.usefixtures("plugin_operators"),
]


SMALL: dict[str, Any] = {"d_model": 32, "d_ff": 48, "n_heads": 2}


def walk(model: Transformer, src: Tensor, *, fused: bool, n_steps: int = 12) -> list[Tensor]:
    """Logits [B, K, V] of steps that reorder three hypotheses of each sentence; src [B, S]"""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        state: Any = model.start(model.encode(src, src == VOCAB.pad))
        assert model.fused_decoder is not None
        if not fused:
            model.fused_decoder = None
        found, beam = [], 1
        for _ in range(n_steps):
            token = torch.randint(4, VOCAB.tgt, (len(src), beam), generator=draw)
            logits, state = model.step(token, state)
            found.append(logits)
            state, beam = state.reorder(torch.randint(beam, (len(src), 3), generator=draw)), 3
    assert isinstance(state, TransformerState)
    return found


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_the_step_in_c_is_that_of_the_layers(options: dict[str, Any]) -> None:
    for found, expected in zip(
        *(walk(model(**options), sources(), fused=fused) for fused in (True, False)), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_the_step_in_c_is_decoding_of_whole_prefixes(options: dict[str, Any]) -> None:
    assert_step_is_decode(model(**options))
    assert_state_reorders(model(**options))


@pytest.mark.parametrize("name", ["paper", "T5 1.1", "SSRU"])
@pytest.mark.parametrize("quantization", ["bf16", pytest.param("int8", marks=needs_bytes)])
def test_the_step_in_fewer_bits_is_that_of_the_layers(quantization: Any, name: str) -> None:
    """Where a last bit decides how a number is rounded, logits may differ by what that rounding does."""
    for found, expected in zip(
        *(walk(model(quantization, **VARIANTS[name] | {"d_model": 64}), sources(), fused=f) for f in (True, False)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", ["paper", "T5 1.1", "SSRU"])
@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_a_sentence_has_the_same_bits_whatever_stands_beside_it(quantization: Any, name: str) -> None:
    one, src = model(quantization, **VARIANTS[name] | {"d_model": 96}), sources(7)
    token = torch.arange(4, 11)[:, None]
    with torch.no_grad():
        memory = one.encode(src, src == VOCAB.pad)
        together, alone = one.start(memory), one.start(memory.select(torch.tensor([5])))
        for _ in range(4):
            (logits, together), (own, alone) = one.step(token, together), one.step(token[5:6], alone)  # type: ignore[assignment]
            assert torch.equal(logits[5:6], own)


@pytest.mark.parametrize("beam", [1, 4, 21])
@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_outputs_and_scores_are_the_same_bits_in_any_order_and_batch(quantization: Any, beam: int) -> None:
    """Sentences leave and others take their places, since there is room for a third of them."""
    one, search = model(quantization, d_model=48), BeamSearch(BeamConfig(beam=beam, max_len_a=1.0, max_len_b=4))
    rows = source_rows(9)

    def outputs(order: list[int], room: int) -> list[list[tuple[float, list[int]]]]:
        queue = FixedQueue((SourceSentence(i, rows[i]) for i in order), room)
        found = find_queued(search, one, queue, VOCAB, nbest=beam)
        return [[(h.score, h.tokens) for h in hypotheses] for hypotheses in found]

    together, few = outputs(list(range(9)), 1000), outputs(list(range(9))[::-1], 20)
    assert together == few == [outputs([i], 1)[0] for i in range(9)]
    assert len({len(tokens) for hypotheses in together for _, tokens in hypotheses}) > 1


@pytest.mark.parametrize("sharing", ["shared", "target", "none"])
def test_a_large_table_is_read_in_the_prepacked_weight(sharing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, options = source_rows(9), {"d_model": 48, "share_embeddings": sharing}

    def outputs(one: Transformer) -> list[list[tuple[float, list[int]]]]:
        queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(rows)), 30)
        found = find_queued(BeamSearch(BeamConfig(max_len_a=1.0, max_len_b=4)), one, queue, VOCAB, nbest=4)
        return [[(h.score, h.tokens) for h in hypotheses] for hypotheses in found]

    kept = model(**options)
    monkeypatch.setattr(replacing, "LARGE_TABLE_BYTES", 1)
    freed = model(**options)
    assert outputs(freed) == outputs(kept)
    before, after = (sum(p.numel() for p in one.parameters()) for one in (kept, freed))
    assert before - after == VOCAB.tgt * 48
    assert (freed.embeddings.target_table is None) == (sharing != "none")
    assert_step_is_decode(freed)
    if sharing == "shared":
        with pytest.raises(IndexError, match=f"of {VOCAB.tgt}"):
            freed.embeddings.source(torch.tensor([4, VOCAB.tgt]))


def test_a_table_whose_rows_are_summed_to_words_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "LARGE_TABLE_BYTES", 1)
    words = replace(VOCAB, word_begins=[True] * VOCAB.src)
    assert model(vocab=words).embeddings.target_table is not None
    assert model(vocab=words, share_embeddings="target").embeddings.target_table is None


class QueueOfTurns(OpenQueue):
    """A queue whose sentences may come after every third step."""

    steps_at_once = 3


@pytest.mark.parametrize("stop", ["exact", "best", "first_k", "heuristic"])
@pytest.mark.parametrize(("beam", "nbest"), [(1, 1), (4, 2), (21, 21)])
@pytest.mark.parametrize("name", ["paper", "pre-norm", "no positions", "Marian", "T5", "SSRU, pre-norm"])
def test_steps_as_one_call_have_the_bits_of_single_steps(
    name: str, beam: int, nbest: int, stop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences join and leave in between, buffers grow, and the last outputs reach their limit of 25 tokens."""
    one, config = model(**VARIANTS[name]), BeamConfig(beam=beam, stop=stop, max_len_a=0.0, max_len_b=25)
    rows = source_rows(9)
    taken = recorded_steps(monkeypatch)

    def outputs(search: BeamSearch) -> list[list[Any]]:
        queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(rows)), 30)
        return find_queued(search, one, queue, VOCAB, nbest=nbest)

    together = outputs(InBatches(config))
    assert max(call.n_steps for call in taken) > 1
    assert together == outputs(StepByStep(config))
    taken.clear()
    queue = OpenQueue((SourceSentence(i, row) for i, row in enumerate(rows)), 30)
    assert find_queued(InBatches(config), one, queue, VOCAB, nbest=nbest) == together
    assert {call.n_steps for call in taken} == {1}, "sentences may come or be cancelled after every step"
    taken.clear()
    turns = QueueOfTurns((SourceSentence(i, row) for i, row in enumerate(rows)), 30)
    assert find_queued(InBatches(config), one, turns, VOCAB, nbest=nbest) == together
    assert max(call.n_steps for call in taken) == 3


@pytest.mark.parametrize("beam", [4, 21, 64])
@pytest.mark.parametrize("twins", [False, True], ids=["distinct", "with_twins"])
def test_a_hypothesis_is_continued_as_far_as_its_sentence_wants_it(
    beam: int, twins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one call of steps, tokens that cannot be among a sentence's best are not looked for; of equal ones all are."""
    vocab = Vocab(src=VOCAB.src, tgt=1003)
    torch.manual_seed(5)
    one = Transformer(
        TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, share_embeddings="none", **SMALL), vocab
    )
    for parameter in one.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape)
        if twins and len(parameter) == vocab.tgt:
            parameter.data[503:] = parameter.data[3:503]
    prepack(one.eval(), "native", "none")
    config, rows = BeamConfig(beam=beam, max_len_a=0.0, max_len_b=12), source_rows(5)

    def outputs(search: BeamSearch) -> list[list[Any]]:
        queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(rows)), 1000)
        return find_queued(search, one, queue, vocab, nbest=beam)

    taken = recorded_steps(monkeypatch)
    assert outputs(InBatches(config)) == outputs(StepByStep(config))
    assert max(call.n_steps for call in taken) > 1


def test_steps_go_on_without_sentences_that_are_done_until_others_may_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs are as long as their own limits, since the penalty rewards length."""
    one, taken = model(), recorded_steps(monkeypatch)
    rows = source_rows(9)
    config = BeamConfig(beam=3, stop="exact", alpha=9.0, max_len_a=1.0, max_len_b=1)

    def outputs(search: BeamSearch, room: int) -> list[list[Any]]:
        queue = FixedQueue((SourceSentence(i, row) for i, row in enumerate(rows)), room)
        return find_queued(search, one, queue, VOCAB, nbest=3)

    expected = outputs(StepByStep(config), 1000)
    assert len({len(one[0].tokens) for one in expected}) > 2, "they do not end at once"
    assert outputs(InBatches(config), 1000) == expected
    assert [call.n_sentences for call in taken] == [9]
    assert outputs(InBatches(config), 1) == expected


def test_what_is_not_in_c_is_done_by_the_layers() -> None:
    other = model(positions="rotary")
    with torch.no_grad():
        other.start(other.encode(sources(), sources() == VOCAB.pad))
    assert other.fused_decoder is None
    assert_step_is_decode(other)


@pytest.mark.parametrize("steps", [BeamSearch, InBatches, StepByStep])
def test_threads_share_a_decoder(steps: type[BeamSearch]) -> None:
    """Each with sentences, caches and lengths of its own."""
    made, search = model(), steps(BeamConfig(beam=3, max_len_a=0.0, max_len_b=30))
    parts = [[SourceSentence(i, row) for i, row in enumerate(source_rows(40)[k::3])] for k in range(3)]

    def found(part: list[SourceSentence]) -> list[list[Hypothesis]]:
        with torch.inference_mode():
            return find_queued(search, made, FixedQueue(part, 30), VOCAB)

    alone = [found(part) for part in parts]
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(found, parts)) == alone
