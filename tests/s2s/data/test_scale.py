"""What must not grow with the corpus: a process's own memory, and the time until it can begin."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from harness.sorting_runs import ROOT
from s2s.data.batching import Permutation

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> Any:
    """benchmarks/scale.py, which the processes that it starts import, too."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scale")


def test_a_corpus_of_any_size_is_opened_in_the_same_time_and_memory(tmp_path: Path, scale: Any) -> None:
    small, large = (scale.measure_corpus(tmp_path, n) for n in (20_000, 450_000))
    assert large["bytes_per_pair"] == pytest.approx(small["bytes_per_pair"], rel=0.02)
    assert large["open_cpu_s"] < 0.2
    for facts in (small, large):
        mib = facts["anonymous_mib"]
        assert mib["open"] - mib["start"] < 2
        assert facts["resident_mib"]["order"] < 300
    grown = large["anonymous_mib"]["order"] - small["anonymous_mib"]["order"]
    assert grown < 60  # a pool of 400,000 pairs, however many there are beyond


def test_the_order_of_a_thousand_million_pairs_needs_no_list() -> None:
    order = Permutation(10**9, 1, 0)
    places = order(np.arange(999_000_000, 999_100_000))
    assert len(np.unique(places)) == 100_000
    assert places.min() >= 0
    assert places.max() < 10**9
