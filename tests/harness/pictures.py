"""Reports without the pictures of their curves, which take most of the time of a tiny run."""

from __future__ import annotations

__all__ = ["pictures", "without_pictures"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from s2s_report import curves, training_sections

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def without_pictures() -> Iterator[None]:
    """Reports as where matplotlib is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_sections, "can_draw", lambda: False)
        yield


@contextmanager
def pictures() -> Iterator[None]:
    """Reports as users get them, in `without_pictures`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_sections, "can_draw", curves.can_draw)
        yield
