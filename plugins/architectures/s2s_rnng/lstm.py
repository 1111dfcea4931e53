"""LSTMs whose states are tensors, so that a step may continue from any earlier one.

Shapes: N rows, B sentences, T positions, I input width, L layers, H width.
"""

from __future__ import annotations

__all__ = ["LSTM", "mirror", "top"]

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from s2s.nn import Dropout, Linear

if TYPE_CHECKING:
    from collections.abc import Iterable


class LSTM(nn.Module):
    """Hochreiter and Schmidhuber (1997), with a forget gate and one bias; the first state is zero."""

    def __init__(self, d_in: int, d_model: int, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.d_model, self.n_layers = d_model, n_layers
        self.inputs = linear_maps(Linear(d_in if n == 0 else d_model, 4 * d_model) for n in range(n_layers))
        self.hiddens = linear_maps(Linear(d_model, 4 * d_model, bias=False) for _ in range(n_layers))
        self.dropout = Dropout(dropout)

    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """x [..., I], state [..., L, 2, H] -> the state after x, whose last layer's output is given by `top`."""
        layers = []
        for input_map, hidden_map, layer in zip(self.inputs, self.hiddens, state.unbind(-3), strict=True):
            h, c = layer.unbind(-2)
            x, c = gated(input_map(self.dropout(x)) + hidden_map(h), c)
            layers.append(torch.stack([x, c], dim=-2))
        return torch.stack(layers, dim=-3)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, I] -> the last layer's outputs [B, T, H], from the zero state on."""
        for input_map, hidden_map in zip(self.inputs, self.hiddens, strict=True):
            h = c = zeros(len(x), self.d_model, like=x)
            outputs = []
            for part in input_map(self.dropout(x)).unbind(1):
                h, c = gated(part + hidden_map(h), c)
                outputs.append(h)
            x = torch.stack(outputs, dim=1)
        return x

    def zero(self, *shape: int, like: Tensor) -> Tensor:
        """The state before any input: [*shape, L, 2, H]"""
        return zeros(*shape, self.n_layers, 2, self.d_model, like=like)

    @torch.no_grad()
    def init_weights(self) -> None:
        """Glorot's uniform weights; biases 0, of forget gates 1 (Jozefowicz et al., 2015)."""
        for linear in (*self.inputs, *self.hiddens):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
                linear.bias[self.d_model : 2 * self.d_model] = 1.0


def top(state: Tensor) -> Tensor:
    """The last layer's output: [..., L, 2, H] -> [..., H]"""
    return state[..., -1, 0, :]


def gated(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Gates [..., 4 H] and memory [..., H] -> output and memory"""
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def zeros(*shape: int, like: Tensor) -> Tensor:
    """Zeros in fp32 or more, regardless of autocast."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros(shape, dtype=dtype, device=like.device)


def mirror(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row's first `lengths` [N] vectors in reverse, the others where they are: [N, T, I] -> [N, T, I]"""
    position = torch.arange(x.size(1), device=x.device)
    rows = torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)
    return x.gather(1, rows[..., None].expand_as(x))


def linear_maps(maps: Iterable[Linear]) -> list[Linear]:
    """The maps in a Sequential: train.strategy=fsdp gathers an element of a ModuleList only when it is called."""
    return cast("list[Linear]", nn.Sequential(*maps))
