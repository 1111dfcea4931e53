"""Length penalties against the formulas, worked out by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from s2s.decoding import BeamConfig


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
def test_penalties_follow_their_formulas(name: Any, length: int, alpha: float, expected: float) -> None:
    assert BeamConfig(length_penalty=name, alpha=alpha).penalty(length) == pytest.approx(expected)
    offset = BeamConfig(length_penalty=name, alpha=alpha, length_offset=1)
    assert offset.penalty(length - 1) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["gnmt", "power", "none"])
@pytest.mark.parametrize("alpha", [-10.0, -1.0, 0.0, 0.6, 1.5, 10.0])
def test_penalties_are_positive_and_monotone_in_the_length(name: Any, alpha: float) -> None:
    """The stop rule relies on it: the largest penalty lies at one of the two ends."""
    values = BeamConfig(length_penalty=name, alpha=alpha).penalties(200)
    assert all(value > 0 for value in values)
    steps = [later - earlier for earlier, later in pairwise(values)]
    assert all(step >= 0 for step in steps) or all(step <= 0 for step in steps)
