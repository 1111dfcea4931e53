"""Advice where outputs are too short."""

from __future__ import annotations

__all__ = ["length_advice"]

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2s.registry import Choice


def length_advice(search: Choice) -> str:
    """Options of the search to try; empty if its scores are means per token already, or if it has no such options."""
    penalty, alpha = getattr(search, "length_penalty", None), getattr(search, "alpha", 0.0)
    is_mean = penalty == "power" and alpha >= 1
    return "" if penalty is None or is_mean else "search.length_penalty=power search.alpha=1"
