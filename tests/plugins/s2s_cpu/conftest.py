"""The plugin is loaded, so that operators call its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from s2s_cpu import threads

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def loaded(plugin_operators: str) -> None:
    pass


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each with as little as one row."""
    monkeypatch.setattr(threads, "MIN_SHARE_VALUES", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)
