"""Moving averages against their definition, written out."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from s2s.training.ema import EMA


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_the_mean_follows_its_definition(decay: float) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    ema = EMA(model, decay)
    expected = model.weight.detach().double()
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        ema.update(step, torch.tensor(True))
        keep = min(decay, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * model.weight.detach().double()
    assert torch.allclose(ema.mean["weight"].double(), expected, atol=1e-5)


def test_a_skipped_update_does_not_count() -> None:
    model = nn.Linear(3, 2)
    ema = EMA(model, 0.9)
    mean = ema.mean["weight"].clone()
    with torch.no_grad():
        model.weight.add_(1.0)
    ema.update(1, torch.tensor(False))
    assert torch.equal(ema.mean["weight"], mean)


def test_inside_the_block_the_model_is_the_mean_and_afterwards_itself_also_after_an_error() -> None:
    model = nn.Linear(3, 2)
    ema = EMA(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1.0)
    weight, mean, parameter = model.weight.clone(), ema.mean["weight"].clone(), model.weight

    def judge() -> None:
        with ema.applied():
            assert torch.equal(model.weight, mean)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge()
    assert model.weight is parameter
    assert torch.equal(model.weight, weight)
    assert torch.equal(ema.mean["weight"], mean)


def test_tied_weights_have_one_mean() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    assert set(EMA(model, 0.9).mean) == {"0.weight", "0.bias", "1.bias"}
