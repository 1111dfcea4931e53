"""A translation model and a language model whose scores are added.

Shapes: B sentences, S source length, T target length, V target tokens.
"""

from __future__ import annotations

__all__ = ["ShallowFusion"]

from typing import TYPE_CHECKING

import torch

from s2s.errors import ConfigError
from s2s.generation.ensemble import CombinedModel, MemberMemories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from s2s.model import Seq2Seq


class ShallowFusion(CombinedModel):
    """Shallow fusion: log p(y | x) + weight * log p(y) of a language model, token by token (Gulcehre et al., 2015).

    The sums are not normalised: they are not log-probabilities of a distribution.
    """

    def __init__(self, model: Seq2Seq, language_model: Seq2Seq, weight: float, source: Sequence[int]) -> None:
        """`source`: the ids, eos included, that were every source in the language model's training."""
        super().__init__([model, language_model])
        if not weight >= 0:
            raise ConfigError(
                f"fusion_weight={weight} must be 0 or more: search relies on a longer output being worth no more"
            )
        self.weight, self.source = weight, source

    def encode(self, src: Tensor, pad: Tensor) -> MemberMemories:
        """src, pad [B, S] -> both memories; the language model's is the same for every sentence."""
        model, language_model = self.models()
        memory, same = model.encode(src, pad), src.new_tensor([self.source]).expand(len(src), -1)
        return MemberMemories(
            memory.hidden, memory.pad, (memory, language_model.encode(same, torch.zeros_like(same).bool()))
        )

    def combine(self, scores: Sequence[Tensor]) -> Tensor:
        """log-probabilities [..., V] of both -> [..., V]"""
        return scores[0] + self.weight * scores[1] if self.weight else scores[0]

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """The translation model's, [B, T, S]."""
        return self.models()[0].attention(src, pad, tgt, layer)

    def label_logits(self, src: Tensor, pad: Tensor) -> Tensor | None:
        """The translation model's, [B, W, L]."""
        return self.models()[0].label_logits(src, pad)
