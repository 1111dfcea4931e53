"""Packed sentences against the same in a padded batch, sentence by sentence."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from s2s.batch import Batch, make_batch
from s2s.data.packing import Capacity, pack
from s2s.nn import LabelSmoothedConfig
from s2s.nn.attention import sdpa
from s2s.nn.loss import LabelSmoothed
from s2s.nn.varlen import FlashVarlen, PaddedVarlen
from s2s.task import Vocab
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

VOCAB = Vocab(src=20, tgt=20, joint=True)
CAPACITY = Capacity(tokens=150, max_len=20)
SHAPES = [None, CAPACITY, Capacity(tokens=200, max_len=12), Capacity(tokens=129, max_len=130)]


def pairs(n: int = 9, longest: int = 10, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    draw = random.Random(seed)
    side = lambda: [draw.randrange(4, 20) for _ in range(draw.randint(0, longest))]  # noqa: E731
    return [(side(), side()) for _ in range(n)]


def model(**own: object) -> Transformer:
    torch.manual_seed(2)
    small = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 16, "d_ff": 24, "n_heads": 2, "dropout": 0.0}
    return Transformer(TransformerConfig(**{**small, **own}), VOCAB).double()  # type: ignore[arg-type]


def gradients(net: Transformer, batch: Batch) -> list[Tensor]:
    net.zero_grad()
    LabelSmoothed(LabelSmoothedConfig())(net, batch).loss.backward()
    return [p.grad.double() for p in net.parameters() if p.grad is not None]


@pytest.mark.parametrize("capacity", SHAPES)
def test_every_symbol_is_there_once_and_the_rest_is_padding(capacity: Capacity | None) -> None:
    batch = pack(pairs(), VOCAB, capacity)
    plain = make_batch(pairs(), VOCAB)
    assert batch.src[~batch.src_pad].tolist() == plain.src[~plain.src_pad].tolist()
    assert batch.tgt_out[~batch.tgt_pad].tolist() == plain.tgt_out[~plain.tgt_pad].tolist()
    assert batch.tgt_in[~batch.tgt_pad].tolist() == plain.tgt_in[~plain.tgt_pad].tolist()
    assert (batch.n_tokens, batch.n_src_tokens) == (plain.n_tokens, plain.n_src_tokens)


@pytest.mark.parametrize("capacity", SHAPES[1:])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_places_are_in_a_sentence_each_and_no_sentence_of_symbols_or_padding_is_too_long(
    capacity: Capacity, n: int
) -> None:
    for side in (packing := pack(pairs(n), VOCAB, capacity).packing) and (packing.src, packing.tgt):
        lengths = side.cu_seqlens.diff()
        assert side.cu_seqlens[-1] == len(side.positions) == capacity.n_positions
        assert lengths.max() <= side.max_seqlen
        assert len(side.padded_index.unique()) == len(side.padded_index)
        assert torch.equal(side.positions, torch.cat([torch.arange(int(m)) for m in lengths]))


@pytest.mark.parametrize(
    ("tokens", "max_len", "n_pairs", "n_fill", "n_positions"),
    [(150, 20, 37, 12, 192), (64, 129, 16, 1, 128), (63, 128, 15, 1, 64), (65, 2, 16, 129, 256), (3, 68, 1, 1, 64)],
)
def test_a_shape_has_room_for_its_tokens_and_for_padding(
    tokens: int, max_len: int, n_pairs: int, n_fill: int, n_positions: int
) -> None:
    """Pairs of four tokens, as much padding as an empty batch needs, and tiles of 64 positions."""
    capacity = Capacity(tokens, max_len)
    assert (capacity.n_pairs, capacity.n_fill, capacity.n_positions) == (n_pairs, n_fill, n_positions)


@pytest.mark.parametrize(
    ("sizes", "grown"),
    [
        ([(39, 1), (59, 1)], (100, 60)),
        ([(1, 39), (1, 59)], (100, 60)),
        ([(0, 0)] * 25, (100, 60)),
        ([(40, 1), (59, 1)], (126, 60)),
        ([(1, 40), (1, 59)], (126, 60)),
        ([(0, 0)] * 26, (126, 60)),
        ([(60, 1)], (126, 61)),
        ([(1, 69)], (126, 70)),
        ([(59, 1)] * 3, (198, 60)),
    ],
    ids=["full", "full target", "most pairs", "source", "target", "pairs", "long", "long target", "twice"],
)
def test_a_shape_grows_by_a_quarter_until_all_pairs_fit(sizes: list[tuple[int, int]], grown: tuple[int, int]) -> None:
    some = [([5] * src, [6] * tgt) for src, tgt in sizes]
    assert Capacity(100, 60).grown_for(some) == Capacity(*grown)


def test_the_shape_is_the_same_whatever_the_batch() -> None:
    shapes = {
        tuple(t.shape for t in (b.src, b.tgt_in, b.packing.src.cu_seqlens, b.packing.tgt.padded_index))
        for b in (pack(pairs(n, seed=n), VOCAB, CAPACITY) for n in (1, 5, 12))
        if b.packing
    }
    assert len(shapes) == 1


@pytest.mark.parametrize("capacity", SHAPES)
@pytest.mark.parametrize("own", [{}, {"attention": "math", "norm": "pre"}, {"d_v": 5, "positions": "learned"}])
def test_a_symbols_vector_is_the_same_as_in_a_rectangle(own: dict[str, object], capacity: Capacity | None) -> None:
    net, packed, plain = model(**own), pack(pairs(), VOCAB, capacity), make_batch(pairs(), VOCAB)
    found, expected = net(*packed.inputs)[~packed.tgt_pad], net(*plain.inputs)[~plain.tgt_pad]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("capacity", SHAPES)
def test_so_is_the_gradient(capacity: Capacity | None) -> None:
    net = model()
    found = [g.clone() for g in gradients(net, pack(pairs(), VOCAB, capacity))]
    for one, other in zip(found, gradients(net, make_batch(pairs(), VOCAB)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)  # the loss is in fp32


def test_what_is_in_the_rest_changes_nothing() -> None:
    net, batch = model(), pack(pairs(), VOCAB, CAPACITY)
    before = net(*batch.inputs)[~batch.tgt_pad]
    batch.src[batch.src_pad] = 7
    batch.tgt_in[batch.tgt_pad] = 7
    assert torch.equal(net(*batch.inputs)[~batch.tgt_pad], before)


def varlen_attn(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, max_q: int, max_k: int, *, window_size: tuple[int, int]
) -> Tensor:
    """torch's function, by its documentation: sentence by sentence, query by query. q, k, v [N, h, d]"""
    left, right = window_size
    out = torch.zeros(len(q), q.size(1), v.size(2), dtype=q.dtype)
    for a, b, c, d in zip(cu_q, cu_q[1:], cu_k, cu_k[1:], strict=False):
        assert b - a <= max_q
        assert d - c <= max_k
        for i in range(int(b - a)):
            first = c if left < 0 else max(c, c + i - left)
            end = d if right < 0 else min(d, c + i + right + 1)
            weights = (torch.einsum("hd,shd->hs", q[a + i], k[first:end]) * q.size(2) ** -0.5).softmax(-1)
            out[a + i] = torch.einsum("hs,shd->hd", weights, v[first:end])
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("capacity", SHAPES)
def test_flash_attention_is_asked_for_what_rectangles_compute(
    monkeypatch: pytest.MonkeyPatch, capacity: Capacity | None, causal: bool
) -> None:
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    packing = pack(pairs(), VOCAB, capacity).packing
    assert packing is not None
    queries, keys = (packing.tgt, packing.tgt) if causal else (packing.tgt, packing.src)
    draw = torch.Generator().manual_seed(4)
    q, k, v = (
        torch.randn(2, len(side.positions), 5, generator=draw, dtype=torch.double) for side in (queries, keys, keys)
    )
    found = FlashVarlen(queries, keys, causal).attend(q, k, v, 0.0)
    expected = PaddedVarlen.within_sentences(queries, keys, q.dtype, sdpa, causal=causal).attend(q, k, v, 0.0)
    torch.testing.assert_close(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("capacity", SHAPES)
def test_flash_attention_sees_what_rectangles_see(capacity: Capacity | None) -> None:
    """Forward and backward, in bf16 against float64."""
    device = torch.device("cuda")
    net = model(d_model=64).to(device)
    exact = gradients(net, pack(pairs(), VOCAB, capacity).to(device))
    with torch.autocast("cuda", torch.bfloat16):
        found = gradients(net.float(), pack(pairs(), VOCAB, capacity).to(device))
    for one, other in zip(found, exact, strict=True):
        assert one.isfinite().all()
        assert (one - other).norm() < 0.03 * other.norm() + 1e-3
