"""s2s-prepare: learn the vocabulary and encode the corpora, without training."""

from __future__ import annotations

__all__: list[str] = []
