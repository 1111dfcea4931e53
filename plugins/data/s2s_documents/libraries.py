"""Libraries of the extra `documents`."""

from __future__ import annotations

__all__ = ["library"]

import importlib
from typing import Any

from s2s import ConfigError


def library(module: str, package: str) -> Any:
    """The module; raises ConfigError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(f"documents of this format need {package}: pip install {package}") from None
