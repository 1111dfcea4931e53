"""Constrained decoding: only well-formed trees, and a fallback if the search finds none."""

from __future__ import annotations

__all__ = ["Bounds", "TreeConstraint", "fallback"]

from s2s_parsing.constraint.automaton import TreeConstraint
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.constraint.fallback import fallback
