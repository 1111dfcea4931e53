"""A clock that tests of this folder move by hand."""

from __future__ import annotations

import pytest

from harness.followed_runs import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for name in ("s2s.log.progress", "s2s.log.live"):
        monkeypatch.setattr(f"{name}.time", clock)
    return clock
