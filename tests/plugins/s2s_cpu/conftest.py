"""The plugin is loaded, so that operators call its functions."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def loaded(plugin_operators: str) -> None:
    pass
