"""The position encodings that `arch.positions` names."""

from __future__ import annotations

__all__ = ["Positions", "positions"]

from typing import TYPE_CHECKING

from s2s.nn import LearnedPositions, Sinusoids

if TYPE_CHECKING:
    from s2s_transformer import TransformerConfig

Positions = Sinusoids | LearnedPositions


def positions(config: TransformerConfig) -> Positions | None:
    """What `arch.positions` names; encoder and decoder each have their own."""
    if config.positions in ("none", "rotary", "relative"):
        return None
    if config.positions == "learned":
        return LearnedPositions(config.max_positions, config.d_model)
    return Sinusoids(config.d_model, "t2t" if config.positions == "sinusoid_t2t" else "paper")
