"""What s2s ships, loaded once for all tests that only read it."""

from __future__ import annotations

from functools import cache
from typing import Any

from s2s.config import GenerateConfig
from s2s.plugin import Plugins, load_plugins


@cache
def shipped() -> Plugins:
    """All of it."""
    return load_plugins()


def generate_config(**options: Any) -> GenerateConfig:
    """Options of s2s-generate, those of its plugins, too."""
    return shipped().registry.with_options(GenerateConfig)(**options)
