"""A trace that can be read, and none unless it is requested."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from s2s.config import Config
from s2s_profiler import ProfileOptions, s2s_observe
from s2s_profiler.tracing import N_BEFORE, N_TRACED, Tracing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("n_updates", [N_BEFORE + 3, N_BEFORE + N_TRACED + 10])
def test_the_updates_after_the_first_ones_are_traced(tmp_path: Path, n_updates: int) -> None:
    said: list[str] = []
    tracing = Tracing(tmp_path / "profile.json", said.append)
    for step in range(n_updates):
        torch.ones(3) @ torch.ones(3)
        tracing.updated({"step": step})
    tracing.close(None)
    events = json.loads((tmp_path / "profile.json").read_text())["traceEvents"]
    n_products = sum(event.get("name") == "aten::dot" for event in events)
    assert n_products == min(n_updates - N_BEFORE - 1, N_TRACED)
    assert len(said) == 1


def test_updates_are_read_at_once_until_all_is_traced(tmp_path: Path) -> None:
    said: list[str] = []
    tracing = Tracing(tmp_path / "profile.json", said.append)
    while tracing.is_due(0):
        assert not said
        tracing.updated({"step": 0})
    assert said
    tracing.close(None)


@pytest.mark.parametrize(("asked", "is_main"), [(False, True), (True, False)])
def test_unless_it_is_asked_for_nothing_is_traced(asked: bool, is_main: bool) -> None:
    trainer: Any = SimpleNamespace(
        config=Config(train=ProfileOptions(profile=asked)), world=SimpleNamespace(is_main=is_main)
    )
    assert s2s_observe(trainer) is None
