"""A trace that can be read, and none where none was asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch

from s2s.log.profiler import N_BEFORE, N_TRACED, tracing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("n_updates", [N_BEFORE + 3, N_BEFORE + N_TRACED + 10])
def test_the_updates_after_the_first_ones_are_traced(tmp_path: Path, n_updates: int) -> None:
    said: list[str] = []
    with tracing(tmp_path / "profile.json", said.append) as traced:
        for _ in range(n_updates):
            torch.ones(3) @ torch.ones(3)
            traced()
    events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    n_products = sum(event.get("name") == "aten::dot" for event in events)
    assert n_products == min(n_updates - N_BEFORE - 1, N_TRACED)
    assert len(said) == 1


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    with tracing(None, print) as traced:
        traced()
    assert not list(tmp_path.iterdir())
