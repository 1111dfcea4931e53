"""The initial weights: Glorot-uniform maps, N(0, 1 / D) embeddings and positions, norms 1, biases 0."""

from __future__ import annotations

__all__ = ["init_weights"]

import torch
from torch import nn

from s2s.nn import Embeddings, Projections
from s2s_transformer.explicit import AdditiveScore, RelativeScore
from s2s_transformer.positions import LearnedPositions
from s2s_transformer.relative_bias import RelativeBias


@torch.no_grad()
def init_weights(model: nn.Module) -> None:
    """Initialise every module of the model in order: random numbers are drawn in that order."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            _init_linear(module)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm | AdditiveScore | RelativeScore | RelativeBias):
            module.reset_parameters()
        elif isinstance(module, LearnedPositions):
            nn.init.normal_(module.weight, std=module.weight.size(1) ** -0.5)
        elif isinstance(module, Embeddings):
            module.init_weights()


def _init_linear(module: nn.Linear) -> None:
    """Initialise each map of a joint projection separately, since the bound depends on its shape."""
    parts = module.parts if isinstance(module, Projections) else (module.out_features,)
    for weight in module.weight.split(parts):
        nn.init.xavier_uniform_(weight)
    if module.bias is not None:
        nn.init.zeros_(module.bias)
