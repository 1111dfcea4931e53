"""Required properties of the attention that an architecture provides."""

from __future__ import annotations

__all__ = ["assert_attention", "assert_attention_maps"]

from typing import TYPE_CHECKING

import torch

from s2s import make_batch
from s2s_testing.incremental import assert_close, batch_of, pairs

if TYPE_CHECKING:
    from s2s import Seq2Seq, Vocab


@torch.no_grad()
def assert_attention(model: Seq2Seq, vocab: Vocab) -> None:
    """Attention, if any, is a distribution over the source, independent of padding, neighbours and later tokens."""
    model.eval()
    sentences = pairs(vocab)
    together = make_batch(sentences, vocab)
    weights = model.attention(together.src, together.src_pad, together.tgt_in)
    if weights is None:
        return
    expected = [*together.tgt_in.shape, together.src.size(1)]
    assert list(weights.shape) == expected, f"attention has the shape {list(weights.shape)}, expected {expected}"
    assert weights.min() >= 0, "attention is negative somewhere"
    assert_close(weights.sum(-1), torch.ones(together.tgt_in.shape), "attention does not sum to 1")
    assert not weights.transpose(1, 2)[together.src_pad].any(), "attention looks at padding"
    for i, pair in enumerate(sentences):
        alone = make_batch([pair], vocab)
        alone_weights = model.attention(alone.src, alone.src_pad, alone.tgt_in)
        assert alone_weights is not None, "attention is given for some sentences only"
        assert_close(
            weights[i, : alone_weights.size(1), : alone_weights.size(2)],
            alone_weights[0],
            "attention depends on neighbours or padding",
        )
        for t in range(1, alone_weights.size(1)):
            short = model.attention(alone.src, alone.src_pad, alone.tgt_in[:, :t])
            assert short is not None, "attention is given for some sentences only"
            assert_close(short, alone_weights[:, :t], f"attention looks ahead: rows before token {t} change with it")


@torch.no_grad()
def assert_attention_maps(model: Seq2Seq, vocab: Vocab) -> None:
    """Every map has the shape of its sides, and rows that sum to 1 and attend neither to source padding nor ahead."""
    model.eval()
    batch = batch_of(vocab)
    lengths = {"src": batch.src.size(1), "tgt": batch.tgt_in.size(1)}
    for one in model.attention_maps(batch.src, batch.src_pad, batch.tgt_in):
        where = f"attention map {one.kind} {one.layer}"
        shape = [len(batch.src), one.weights.size(1), lengths[one.queries], lengths[one.keys]]
        assert list(one.weights.shape) == shape, f"{where} has the shape {list(one.weights.shape)}, expected {shape}"
        assert_close(one.weights.sum(-1), torch.ones(one.weights.shape[:-1]), f"{where} does not sum to 1")
        if one.keys == "src":
            assert not one.weights.movedim(-1, 1)[batch.src_pad].any(), f"{where} looks at padding"
        elif one.queries == "tgt":
            assert not one.weights.triu(1).any(), f"{where} looks ahead"
