"""Learned position encodings, row (E) of Table 3."""

from __future__ import annotations

import pytest
import torch

from s2s.errors import DataError
from s2s_transformer.positions import LearnedPositions


def test_learned_positions_are_rows_times_the_root_of_the_width() -> None:
    learned = LearnedPositions(5, 4, scaled=True)
    torch.nn.init.normal_(learned.weight)
    assert torch.equal(learned(torch.tensor([3, 1]), torch.float32), learned.weight[[3, 1]] * 2)
    unscaled = LearnedPositions(5, 4, scaled=False)
    unscaled.load_state_dict(learned.state_dict())
    assert torch.equal(unscaled(torch.tensor([3, 1]), torch.float32), learned.weight[[3, 1]])
    learned.check(5)
    with pytest.raises(DataError, match=r"6 tokens.*arch\.max_positions=6"):
        learned.check(6)


def test_the_first_learned_positions_are_the_first_rows() -> None:
    learned = LearnedPositions(5, 4, scaled=True)
    torch.nn.init.normal_(learned.weight)
    assert torch.equal(learned.first(3, torch.bfloat16, torch.device("cpu")), (learned.weight[:3] * 2).bfloat16())
