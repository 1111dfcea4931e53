"""Length penalties against the formulas, worked out by hand."""

from __future__ import annotations

import pytest
import torch

from s2s.decoding.candidates import PENALTIES


@pytest.mark.parametrize(
    ("name", "length", "alpha", "expected"),
    [
        ("gnmt", 1, 0.6, 1.0),
        ("gnmt", 7, 1.0, 2.0),
        ("gnmt", 19, 0.5, 2.0),
        ("gnmt", 7, -1.0, 0.5),
        ("gnmt", 7, 0.0, 1.0),
        ("power", 7, 1.0, 7.0),
        ("power", 16, 0.5, 4.0),
        ("power", 4, -0.5, 0.5),
        ("power", 7, 0.0, 1.0),
        ("none", 7, 0.6, 1.0),
    ],
)
def test_penalties_follow_their_formulas(name: str, length: int, alpha: float, expected: float) -> None:
    assert PENALTIES[name](torch.tensor([float(length)]), alpha).tolist() == pytest.approx([expected])


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 1.5])
def test_penalties_are_positive_and_monotone_in_the_length(name: str, alpha: float) -> None:
    """The stop rule relies on it: the largest penalty lies at one of the two ends."""
    values = PENALTIES[name](torch.arange(1.0, 200.0), alpha)
    assert (values > 0).all()
    steps = values.diff()
    assert (steps >= 0).all() or (steps <= 0).all()
