"""What architectures and the plugins that fuse their steps share."""

from __future__ import annotations

import torch

from s2s.backend.growing_state import pad_to_beam


def test_hypotheses_come_first_in_the_memory_that_has_room_for_a_beam() -> None:
    x = torch.arange(1, 13).view(2, 3, 2).transpose(1, 2)  # [2, 2, 3], not contiguous
    wide = pad_to_beam(x, 4)
    assert wide.shape == (2, 4, 3)
    assert wide.is_contiguous()
    assert wide.flatten().tolist() == [*x.flatten().tolist(), *[0] * 12]


def test_what_has_a_beam_already_is_not_copied() -> None:
    x = torch.zeros(2, 4, 3)
    assert pad_to_beam(x, 4) is x
