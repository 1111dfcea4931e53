"""The files that s2s-score reads, and its reports. No torch at import."""

from __future__ import annotations

__all__: list[str] = []
