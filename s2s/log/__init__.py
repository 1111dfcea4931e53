"""The log of a run: screen, log.jsonl, train.log and TensorBoard."""

from __future__ import annotations

__all__ = ["Log"]

from s2s.log.log import Log
