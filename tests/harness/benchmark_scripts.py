"""The scripts of benchmarks/ as modules."""

from __future__ import annotations

__all__ = ["load_benchmark"]

import importlib
from typing import Any

import pytest

from harness.folders import ROOT


def load_benchmark(name: str) -> Any:
    """The script `benchmarks/NAME.py`, imported as Python imports it when it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module(name)
