"""Optimizers against their update rules written out in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from s2s_optim import AdadeltaConfig, AdamConfig, AdamWConfig, SGDConfig
from s2s_optim.build import adadelta, adam, adamw, sgd


def run(optimizer: torch.optim.Optimizer, parameter: nn.Parameter, gradients: torch.Tensor, lr: float) -> None:
    for gradient in gradients:
        parameter.grad = gradient.clone()
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()


@pytest.mark.parametrize("decay", [0.0, 0.1], ids=["adam", "adamw"])
def test_adam_follows_its_equations(decay: float) -> None:
    torch.manual_seed(0)
    weight, gradients = torch.randn(3, 4), torch.randn(5, 3, 4)
    parameter = nn.Parameter(weight.clone())
    optimizer = adamw(AdamWConfig(weight_decay=decay), [parameter]) if decay else adam(AdamConfig(), [parameter])
    run(optimizer, parameter, gradients, lr=0.01)

    x, m, v = weight.double(), torch.zeros(3, 4).double(), torch.zeros(3, 4).double()
    for t, g in enumerate(gradients.double(), start=1):
        x = x * (1 - 0.01 * decay)
        m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g
        x = x - 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
    assert torch.allclose(parameter.double(), x, atol=1e-6)


def test_adadelta_follows_its_equations() -> None:
    """Zeiler (2012), algorithm 1."""
    torch.manual_seed(0)
    weight, gradients = torch.randn(3, 4), torch.randn(5, 3, 4)
    parameter = nn.Parameter(weight.clone())
    run(adadelta(AdadeltaConfig(), [parameter]), parameter, gradients, lr=1.0)

    x, squares, updates = weight.double(), torch.zeros(3, 4).double(), torch.zeros(3, 4).double()
    for g in gradients.double():
        squares = 0.95 * squares + 0.05 * g * g
        update = ((updates + 1e-6) / (squares + 1e-6)).sqrt() * g
        updates = 0.95 * updates + 0.05 * update * update
        x = x - update
    assert torch.allclose(parameter.double(), x, atol=1e-6)


def test_weight_decay_leaves_vectors_alone() -> None:
    vector = nn.Parameter(torch.ones(4))
    run(adamw(AdamWConfig(weight_decay=0.5), [vector]), vector, torch.zeros(3, 4), lr=0.1)
    assert torch.equal(vector, torch.ones(4))


def test_momentum_adds_up_past_gradients() -> None:
    parameter = nn.Parameter(torch.zeros(1, 1))
    run(sgd(SGDConfig(momentum=0.5), [parameter]), parameter, torch.ones(3, 1, 1), lr=1.0)
    assert parameter.item() == pytest.approx(-(1 + 1.5 + 1.75))


def test_without_a_schedule_nothing_moves() -> None:
    parameter = nn.Parameter(torch.ones(2, 2))
    optimizer = adam(AdamConfig(), [parameter])
    parameter.grad = torch.ones(2, 2)
    optimizer.step()
    assert torch.equal(parameter, torch.ones(2, 2))
