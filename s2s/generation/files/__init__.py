"""The files of s2s-generate: lines to inputs, outputs to lines; files that are continued or shared."""

from __future__ import annotations

__all__: list[str] = []
