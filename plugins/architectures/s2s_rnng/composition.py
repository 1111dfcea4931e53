"""One vector for a bracket, from its label and its children, read in both directions (Dyer et al., 2016)."""

from __future__ import annotations

__all__ = ["Composition"]

import torch
from torch import Tensor, nn

from s2s.nn import Linear
from s2s_rnng.lstm import LSTM, mirror


class Composition(nn.Module):
    """tanh(W [forward; backward] + b), where both LSTMs read the label first, then the children."""

    def __init__(self, d_item: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.forwards = LSTM(d_item, d_item, n_layers, dropout)
        self.backwards = LSTM(d_item, d_item, n_layers, dropout)
        self.out = Linear(2 * d_item, d_item)

    def forward(self, labels: Tensor, children: Tensor, n_children: Tensor) -> Tensor:
        """labels [N, E], children [N, C, E], of which the first `n_children` [N] count -> [N, E]"""
        rows = torch.arange(len(labels), device=labels.device)
        ends = [
            lstm(torch.cat([labels[:, None], read], dim=1))[rows, n_children]
            for lstm, read in ((self.forwards, children), (self.backwards, mirror(children, n_children)))
        ]
        return self.out(torch.cat(ends, dim=-1)).tanh()
