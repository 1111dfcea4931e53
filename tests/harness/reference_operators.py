"""All operators replaced by their references in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from s2s.backend import Operator

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pytest


def use_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no compiler is: no operator calls its function in C."""
    monkeypatch.setattr(Operator, "use_implementations", False)


def references() -> AbstractContextManager[object]:
    """The same in a block."""
    return patch.object(Operator, "use_implementations", False)
