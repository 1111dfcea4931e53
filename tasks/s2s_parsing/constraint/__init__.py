"""Decoding that can only emit trees: what an unfinished output may go on with, and what stands in for no output."""

from __future__ import annotations

__all__ = ["Bounds", "TreeConstraint", "fallback"]

from s2s_parsing.constraint.automaton import TreeConstraint
from s2s_parsing.constraint.bounds import Bounds
from s2s_parsing.constraint.fallback import fallback
