"""The property that train.init_from relies on in every architecture that defines `Seq2Seq.vocab_rows`."""

from __future__ import annotations

__all__ = ["assert_vocab_rows"]

import copy
from typing import TYPE_CHECKING

import torch

from s2s_testing.incremental import assert_close, batch_of

if TYPE_CHECKING:
    from s2s import Seq2Seq, Side, Vocab


@torch.no_grad()
def assert_vocab_rows(model: Seq2Seq, vocab: Vocab) -> None:
    """With its rows permuted to other ids, a model predicts the same tokens under those ids.

    Source and target get different permutations unless they are one vocabulary; special tokens keep their ids.
    """
    sides = model.vocab_rows()
    if sides is None:
        return
    target = _order(vocab, "src" if vocab.joint else "tgt", seed=1)
    source = target if vocab.joint else _order(vocab, "src", seed=2)
    tensors = model.state_dict()
    for name, side in sides.items():
        assert name in tensors, f"vocab_rows names '{name}', which is not in the state dict"
        n = getattr(vocab, side)
        assert len(tensors[name]) == n, f"vocab_rows: '{name}' has {len(tensors[name])} rows for {n} {side} tokens"
    other = copy.deepcopy(model).eval()
    rows = {name: tensors[name][source if side == "src" else target] for name, side in sides.items()}
    other.load_state_dict({**tensors, **rows})
    batch = batch_of(vocab)
    src, tgt = source.argsort()[batch.src], target.argsort()[batch.tgt_in]
    expected = model.eval().project(model(batch.src, batch.src_pad, batch.tgt_in))[..., target]
    logits = other.project(other(src, batch.src_pad, tgt))
    assert_close(logits, expected, "vocab_rows leaves out a tensor with a row for each token, or names another")


def _order(vocab: Vocab, side: Side, seed: int) -> torch.Tensor:
    """The old id of each new one; ids that begin a source word still do, and target ids keep their effect."""
    order = torch.arange(getattr(vocab, side))
    begins = vocab.word_begins if side == "src" else ()
    effects = vocab.guide.effects if vocab.guide and (side == "tgt" or vocab.joint) else ()
    kinds = [(begins[i] if begins else False, effects[i] if effects else "") for i in range(len(order))]
    special = {vocab.pad, vocab.unk, vocab.bos, vocab.eos, *vocab.tag_ids, *vocab.labels}
    generator = torch.Generator().manual_seed(seed)
    for kind in dict.fromkeys(kinds):
        ids = torch.tensor([i for i in range(len(order)) if kinds[i] == kind and i not in special], dtype=torch.long)
        order[ids] = ids[torch.randperm(len(ids), generator=generator)]
    return order
