"""Outputs with a lexical shortlist are those of the model whose other tokens have no probability, in any batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.packed_models import (
    VARIANTS,
    model,
    needs_bytes,
    recorded_steps,
    recorded_stream_calls,
    shortlist,
    source_rows,
)
from harness.search_calls import InBatches, StepByStep, find_queued
from s2s.backend.linear import prepack
from s2s.decoding import AffineTransform, BeamConfig, BeamSearch, SourceSentence
from s2s.decoding.queue import FixedQueue
from s2s.decoding.shortlist import MULTIPLE, Shortlist
from s2s.errors import CheckpointError
from s2s_cpu.prepacked import Bf16Linear, Fp32Linear, HugePageArena, Int8Linear, has_linear
from s2s_testing import VOCAB
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

pytestmark = pytest.mark.usefixtures("plugin_operators")
V = VOCAB.tgt
N = 9


def expected_tokens(lists: Shortlist, source: list[int]) -> set[int]:
    """As Marian puts it: frequent tokens, those of the source, and then frequent ones up to a multiple of eight.

    All tokens where these are none: Marian's lists of frequent tokens are never empty.
    """
    always, offsets, tokens = (x.tolist() for x in lists)
    found = {*always}
    for token in source:
        if token + 1 < len(offsets):
            found |= {*tokens[offsets[token] : offsets[token + 1]]}
    if not found:
        return {*range(V)}
    following = len(always)
    while len(found) % MULTIPLE and following < V:
        found.add(following)
        following += 1
    return found


@pytest.mark.parametrize("n_always", [0, 1, 5, V])
def test_a_sentence_has_frequent_tokens_and_those_of_its_source(n_always: int) -> None:
    lists, rows = shortlist(n_always), source_rows(N)
    for source, listed in zip([*rows, None], lists.listed([*rows, None], V), strict=True):
        expected = {*range(V)} if source is None else expected_tokens(lists, source)
        assert {*listed.nonzero()[:, 0].tolist()} == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", torch.tensor([V])),
        ("tokens", torch.tensor([-1])),
        ("always", torch.tensor([V])),
        ("offsets", torch.tensor([0, 2])),
        ("offsets", torch.tensor([0, 2, 1])),
        ("offsets", torch.tensor([])),
    ],
)
def test_a_shortlist_of_other_tokens_is_refused(name: str, value: Tensor) -> None:
    good = {"always": torch.arange(2), "offsets": torch.tensor([0, 1]), "tokens": torch.tensor([3])}
    assert Shortlist.of(good, V).tokens.tolist() == [3]
    with pytest.raises(CheckpointError, match="outside of it"):
        Shortlist.of(good | {name: value}, V)
    with pytest.raises(CheckpointError, match="other tensors"):
        Shortlist.of({"ids": value}, V)


def outputs(search: Any, one: Any, order: list[int], room: int, **options: Any) -> dict[int, list[Any]]:
    rows = source_rows(N)
    queue = FixedQueue([SourceSentence(i, rows[i]) for i in order], room)
    found = find_queued(search, one, queue, VOCAB, **options)
    return {
        i: [(h.tokens, h.score, h.token_log_probs) for h in each] for i, each in zip(sorted(order), found, strict=True)
    }


def masked(search: Any, one: Any, lists: Shortlist, **options: Any) -> dict[int, list[Any]]:
    """Each sentence by itself, with all logits, of which those of other tokens are -inf."""
    found = {}
    for i, row in enumerate(source_rows(N)):
        bias = torch.full((V,), -torch.inf)
        bias[[*expected_tokens(lists, row)]] = 0
        found |= outputs(search, one, [i], 1, transforms=[AffineTransform(torch.ones(V), bias)], **options)
    return found


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", ["paper", "SSRU", "T5", "Marian"])
@pytest.mark.parametrize("quantization", ["none", "bf16", pytest.param("int8", marks=needs_bytes)])
def test_outputs_are_those_of_masked_logits_in_any_batch(
    quantization: Any, name: str, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences leave and others take their places: in a stream, in calls of steps, which move rows, step by step."""
    one, lists = model(quantization, **VARIANTS[name]), shortlist()
    config, calls = BeamConfig(beam=beam, max_len_a=1.0, max_len_b=4), recorded_steps(monkeypatch)
    of_streams = recorded_stream_calls(monkeypatch)
    expected = masked(BeamSearch(config), one, lists, nbest=beam)
    assert expected != outputs(BeamSearch(config), one, [*range(N)], 25, nbest=beam)
    calls.clear()
    of_streams.clear()
    for order, room in (([*range(N)], 1000), ([*range(N)][::-1], 25), ([*range(N)], 1)):
        for search in (BeamSearch(config), InBatches(config), StepByStep(config)):
            assert outputs(search, one, order, room, nbest=beam, shortlist=lists) == expected
    assert any(call.n_steps > 1 for call in calls)
    assert "run" in of_streams


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
@pytest.mark.parametrize("n_always", [0, 1, V])
def test_a_stream_has_the_tokens_of_any_shortlist(n_always: int) -> None:
    one, lists, search = model(), shortlist(n_always), BeamSearch(BeamConfig(beam=3, max_len_b=4))
    assert outputs(search, one, [*range(N)], 25, nbest=3, shortlist=lists) == masked(search, one, lists, nbest=3)


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("n_sources", [0, V // 2])
def test_a_source_without_any_token_in_the_list_may_have_all_of_them(n_sources: int, beam: int) -> None:
    """In a batch of such sentences alone and with others, in streams, in batches and step by step."""
    full, one, config = shortlist(0), model(), BeamConfig(beam=beam, max_len_b=4)
    offsets = full.offsets.clamp(max=int(full.offsets[n_sources]))
    lists = Shortlist(full.always, offsets, full.tokens[: int(offsets[-1])])
    sizes = lists.listed(source_rows(N), V).sum(1)
    assert (sizes == V).any()
    assert (sizes < V).any() == (n_sources > 0)
    expected = masked(BeamSearch(config), one, lists, nbest=beam)
    for room in (1000, 1):
        for search in (BeamSearch(config), InBatches(config), StepByStep(config)):
            assert outputs(search, one, [*range(N)], room, nbest=beam, shortlist=lists) == expected


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
def test_sentences_without_room_in_the_beam_are_bounded_by_their_lists() -> None:
    """A beam that is wider than the list of each sentence has hypotheses without probability."""
    one, lists, search = model(), shortlist(0), BeamSearch(BeamConfig(beam=V // 2, max_len_b=3))
    assert outputs(search, one, [*range(N)], 25, nbest=V // 2, shortlist=lists) == masked(
        search, one, lists, nbest=V // 2
    )


@pytest.mark.parametrize("matmul", ["torch", "onednn"])
def test_outputs_of_other_libraries_are_those_of_masked_logits(matmul: Any) -> None:
    torch.manual_seed(3)
    one = Transformer(TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=48), VOCAB).eval()
    prepack(one, matmul, "none")
    search, lists = BeamSearch(BeamConfig(beam=3, max_len_b=6)), shortlist()
    expected, found = masked(search, one, lists), outputs(search, one, [*range(N)], 25, shortlist=lists)
    for i in range(N):
        assert found[i][0][0] == expected[i][0][0]
        assert found[i][0][1] == pytest.approx(expected[i][0][1], abs=1e-5)


def test_a_step_computes_what_each_sentence_lists() -> None:
    one, lists, row = model(), shortlist(1), source_rows(N)[0]
    assert lists.listed([None, row], V).sum(1).tolist() == [V, len(expected_tokens(lists, row))]
    memory = one.encode(torch.tensor([row, row]), torch.zeros(2, len(row), dtype=torch.bool))
    memory = replace(memory, listed=lists.listed([None, row], V))
    logits, _ = one.step(torch.tensor([[VOCAB.bos], [VOCAB.bos]]), one.start(memory))
    assert logits[0].isfinite().all()
    assert (logits[1, 0] > -torch.inf).nonzero()[:, 0].tolist() == sorted(expected_tokens(lists, row))


WEIGHT = torch.randn(70, 48, generator=torch.Generator().manual_seed(0))
BIAS = torch.randn(70, generator=torch.Generator().manual_seed(1))
MAPS: list[Any] = [
    pytest.param(lambda: Fp32Linear(WEIGHT, BIAS, HugePageArena()), id="fp32"),
    pytest.param(lambda: Bf16Linear(WEIGHT, BIAS, HugePageArena()), id="bf16"),
    pytest.param(lambda: Int8Linear(WEIGHT, BIAS, HugePageArena()), id="int8", marks=needs_bytes),
]


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize("ids", [[0], [69, 3, 3], [*range(70)], [*range(0, 70, 2)], [64, 65]], ids=len)
def test_some_outputs_of_a_map_have_the_bits_of_all(make: Any, ids: list[int]) -> None:
    x, whole = torch.randn(7, 48, generator=torch.Generator().manual_seed(2)), make()
    before = whole(x)
    chosen = whole.select(torch.tensor(ids))
    assert torch.equal(chosen(x), before[:, ids])
    assert torch.equal(whole(x), before)
    assert torch.equal(chosen.select(torch.tensor([0]))(x), before[:, ids[:1]])


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
@pytest.mark.parametrize("ids", [[70], [-1], [0, 71]])
def test_outputs_that_a_map_does_not_have_are_an_error(ids: list[int]) -> None:
    with pytest.raises(IndexError, match="of 70"):
        Fp32Linear(WEIGHT, BIAS).select(torch.tensor(ids))


@pytest.mark.skipif(not has_linear(), reason="no functions in C")
@pytest.mark.parametrize("token", [-1, V, 10**11])
def test_a_stream_refuses_tokens_that_the_output_lacks(token: int) -> None:
    """A program may make a shortlist by itself."""
    search, one = BeamSearch(BeamConfig(beam=3, max_len_b=4)), model()
    lists = shortlist()
    for other in (lists._replace(always=torch.tensor([token])), lists._replace(offsets=lists.offsets + 1)):
        with pytest.raises(ValueError, match="outside of it"):
            outputs(search, one, [*range(N)], 25, nbest=3, shortlist=other)
