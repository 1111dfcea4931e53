"""The language model against the contract, and against what a model without a source must be."""

from __future__ import annotations

import pytest
import torch

from harness.search_calls import find
from s2s.backend.linear import prepack
from s2s.batch import make_batch
from s2s.data.packing import pack
from s2s.decoding import BeamConfig
from s2s.decoding.beam_search import BeamSearch
from s2s.errors import ConfigError
from s2s.generation.shallow_fusion import ShallowFusion
from s2s.plugin import load_plugins
from s2s.task import Vocab
from s2s_testing import VOCAB, check_arch
from s2s_transformer_lm import TransformerLMConfig
from s2s_transformer_lm.model import TransformerLM

CONFIG = TransformerLMConfig(name="transformer_lm", n_layers=2, d_model=16, d_ff=16, n_heads=2)


def built(vocab: Vocab = VOCAB) -> TransformerLM:
    torch.manual_seed(1)
    return TransformerLM(CONFIG, vocab).eval()


def test_it_keeps_the_contract_of_an_architecture() -> None:
    check_arch(load_plugins().registry.get("arch", "transformer_lm"), CONFIG)


@torch.no_grad()
def test_it_does_not_look_at_its_source() -> None:
    model = built(Vocab(src=5, tgt=19))
    tgt = torch.tensor([[2, 7, 8]])
    one, other = torch.tensor([[4, 3]]), torch.tensor([[18, 17, 16, 3]])  # ids that no table has
    assert torch.equal(model(one, one == 0, tgt), model(other, other == 0, tgt))


@torch.no_grad()
def test_sentences_end_to_end_are_what_they_are_in_rectangles() -> None:
    model, pairs = built(), [([4], [5, 6, 7]), ([4], [8]), ([4], [9, 10, 11, 12, 13])]
    packed, padded = pack(pairs, VOCAB), make_batch(pairs, VOCAB)
    found = model(*packed.inputs)
    expected = model(*padded.inputs)[~padded.tgt_pad]
    torch.testing.assert_close(found, expected)


def test_the_count_of_operations_is_that_of_its_products() -> None:
    """One sentence of 3 symbols: maps of 4 d² and 2 d f, keys and values of half the pairs, the softmax."""
    model = built()
    per_symbol = 2 * (4 * 16 * 16 + 2 * 16 * 16)
    assert model.forward_operations([2], [3]) == 2 * (3 * per_symbol + 2 * 16 * 9 + 3 * 16 * 19)


@pytest.mark.parametrize("matmul", ["torch", "auto"])
def test_a_fused_search_is_the_same_alone_and_in_a_batch(matmul: str) -> None:
    model = load_plugins().registry.get("arch", "transformer")
    sizes = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    torch.manual_seed(0)
    fused = ShallowFusion(model.build(model.config(name="transformer", **sizes), VOCAB).eval(), built(), 0.5, [4, 3])
    prepack(fused, matmul, "none")  # type: ignore[arg-type]
    pairs = [([5, 6, 7, 8], []), ([9], []), ([10, 11, 12, 13, 14, 15, 16], [])]
    search = BeamSearch(BeamConfig(beam=3, max_len_b=4))
    batch = make_batch(pairs, VOCAB)
    together = find(search, fused, batch.src, batch.src_pad, VOCAB, nbest=3)
    for pair, hypotheses in zip(pairs, together, strict=True):
        alone = make_batch([pair], VOCAB)
        (expected,) = find(search, fused, alone.src, alone.src_pad, VOCAB, nbest=3)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], rel=1e-6)


@pytest.mark.parametrize("wrong", [{"d_model": 15}, {"d_model": 16, "n_heads": 3}, {"n_layers": 0}])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"arch.{next(iter(wrong))}="):
        TransformerLMConfig(name="transformer_lm", **wrong)
