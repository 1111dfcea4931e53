"""Word dropout and LayerDrop against what they say they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s import Vocab
from s2s.batch import make_batch
from s2s.nn import WordDropout
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer
from s2s_transformer.regularization import LayerDrop

if TYPE_CHECKING:
    from torch import Tensor

VOCAB = Vocab(src=17, tgt=17, joint=True)
PAIRS = [([4, 5, 6, 7], [8, 9, 10]), ([11], [12, 13, 14, 15, 16])]


def build(**options: float) -> Transformer:
    torch.manual_seed(1)
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 8, "d_ff": 12, "n_heads": 2, "dropout": 0.1}
    return Transformer(TransformerConfig(**{**sizes, **options}), VOCAB)  # type: ignore[arg-type]


def run(model: Transformer, seed: int = 3) -> Tensor:
    batch = make_batch(PAIRS, VOCAB)
    torch.manual_seed(seed)
    return model(batch.src, batch.src_pad, batch.tgt_in)


@pytest.mark.parametrize("option", ["src_word_dropout", "tgt_word_dropout", "decoder_layer_drop"])
def test_a_share_of_zero_draws_nothing_and_evaluation_never_does(option: str) -> None:
    model, plain = build(**{option: 0.5}), build()
    assert torch.equal(run(model.eval()), run(plain.eval()))
    zero = build(**{option: 0.0}).train()
    torch.manual_seed(3)
    expected = run(plain.train())
    after = torch.rand(1)
    assert torch.equal(run(zero), expected)
    assert torch.equal(torch.rand(1), after), "as many random numbers were drawn"
    assert not torch.equal(run(model.train()), expected)


def test_word_dropout_leaves_out_whole_tokens_and_keeps_the_mean() -> None:
    torch.manual_seed(1)
    x = torch.rand(4000, 3) + 1
    y = WordDropout(0.2)(x)
    dropped = (y == 0).all(-1)
    assert torch.equal(dropped, (y == 0).any(-1))
    assert torch.allclose(y[~dropped], x[~dropped] / 0.8, rtol=1e-4)
    assert dropped.float().mean().item() == pytest.approx(0.2, abs=0.03)


def test_layer_drop_gives_a_layers_output_or_its_input() -> None:
    torch.manual_seed(1)
    drop, old, new = LayerDrop(0.3), torch.zeros(2), torch.ones(2)
    found = torch.stack([drop(new, old) for _ in range(2000)])
    assert torch.equal(found[:, 0], found[:, 1])
    assert found.mean().item() == pytest.approx(0.7, abs=0.04)


def test_the_parameters_of_a_layer_that_is_passed_over_get_a_gradient_of_zeros() -> None:
    model = build(decoder_layer_drop=0.999).train()
    run(model).sum().backward()
    gradients = [p.grad for layer in model.decoder for p in layer.parameters()]
    assert all(g is not None and not g.any() for g in gradients)
