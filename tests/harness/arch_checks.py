"""Checks of every shipped architecture beyond `check_arch`: searches, ensembles, operations, other numbers."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.reference_operators import references
from harness.search_calls import find
from s2s.backend.linear import prepack
from s2s.batch import make_batch
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.generation.ensemble import Ensemble
from s2s.plugin import Plugins, load_plugins
from s2s_cpu.onednn import int8_is_exact
from s2s_cpu.prepacked import has_int8_linear
from s2s_testing import VOCAB, assert_state_reorders, assert_step_is_decode
from s2s_testing.incremental import batch_of, pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from s2s.model import Seq2Seq
    from s2s.registry import Choice


@cache
def plugins() -> Plugins:
    return load_plugins()


def seeded(arch: str, config: Choice, scale: float = 1.0) -> Seq2Seq:
    """A model of the vocabulary of `check_arch`, its weights times `scale`."""
    torch.manual_seed(1)
    model = plugins().registry.get("arch", arch).build(config, VOCAB).eval()
    for parameter in model.parameters():
        parameter.data *= scale
    return model


def assert_searched(model: Seq2Seq) -> None:
    """Every registered search gives outputs for every sentence, and beam search the same from a batch as one by one."""
    batch = batch_of(VOCAB)
    for group, name in sorted(plugins().registry.entries):
        if group == "search":
            entry = plugins().registry.get(group, name)
            found = find(entry.build(entry.config()), model, batch.src, batch.src_pad, VOCAB)
            assert all(hypotheses for hypotheses in found), f"search={name} finds nothing"
    search = BeamSearch(BeamConfig(beam=3, max_len_b=4))
    together = find(search, model, batch.src, batch.src_pad, VOCAB, nbest=3)
    for pair, expected in zip(pairs(VOCAB), together, strict=True):
        alone = make_batch([pair], VOCAB)
        (own,) = find(search, model, alone.src, alone.src_pad, VOCAB, nbest=3)
        assert [h.tokens for h in own] == [h.tokens for h in expected]


@torch.no_grad()
def assert_ensembles(model: Seq2Seq) -> None:
    """Together with a Transformer it steps and reorders as each alone."""
    from s2s_transformer import TransformerConfig

    other = TransformerConfig(n_encoder_layers=1, n_decoder_layers=1, d_model=8, d_ff=8, n_heads=2, dropout=0.0)
    ensemble = Ensemble([model, seeded("transformer", other)])
    assert_step_is_decode(ensemble, VOCAB)
    assert_state_reorders(ensemble, VOCAB)


@torch.no_grad()
def assert_operations(model: Seq2Seq, hidden: float = 0.0, src: int = 7, tgt: int = 5) -> None:
    """`forward_operations` is what torch counts for three pairs without padding, less what a mask hides."""
    source, target = (torch.randint(4, VOCAB.src, (3, n)) for n in (src, tgt))
    with references(), FlopCounterMode(display=False) as counter:
        model.project(model(source, source == VOCAB.pad, target))
    expected = counter.get_total_flops() - hidden
    assert model.forward_operations([src] * 3, [tgt] * 3) == pytest.approx(expected)


@torch.no_grad()
def assert_int8(model: Seq2Seq) -> None:
    """With 8-bit linear maps a step still agrees with a forward pass, and both with fp32 to some digits."""
    if not (has_int8_linear() or int8_is_exact()):
        return  # this processor has none, and the option is refused
    small = copy.deepcopy(model)
    prepack(small, "auto", "int8")
    assert_step_is_decode(small, VOCAB)
    assert_near(logits(small), logits(model), 0.1)


def assert_bf16(model: Seq2Seq) -> None:
    """Under autocast the loss has gradients, and predictions agree with fp32 to some digits."""
    expected = logits(model)
    with torch.autocast("cpu", torch.bfloat16):
        found = logits(model)
    assert_near(found, expected, 0.1)
    found.logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def logits(model: Seq2Seq) -> Tensor:
    """[B, T, V]"""
    batch = batch_of(VOCAB)
    return model.project(model(batch.src, batch.src_pad, batch.tgt_in)).float()


def assert_near(found: Tensor, expected: Tensor, share: float) -> None:
    """The root of the mean squared difference is at most `share` of the expected numbers' own."""
    assert (found - expected).square().mean().sqrt() <= share * expected.square().mean().sqrt()


def n_parameters(arch: str, config: Choice, rows: Sequence[int]) -> int:
    """Of a model for so many source and target tokens, without making it."""
    from s2s.task import Vocab

    with torch.device("meta"):
        model = plugins().registry.get("arch", arch).build(config, Vocab(src=rows[0], tgt=rows[1]))
    return sum(p.numel() for p in model.parameters())
