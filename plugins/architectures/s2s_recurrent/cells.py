"""Recurrent layers: a cell, and running it over whole sequences.

The input's part of the gates is computed for all positions at once, so that a step is one product and the gates.

Whole sequences go through torch's kernels on CUDA. On a CPU an LSTM goes through the operator `lstm`, which is a loop
if the width is not a multiple of 16 or the functions in C are missing; a GRU goes, in fp32 from width 128 on, through
torch's kernel, which takes 0.5 to 0.6 of the loop's time (32 sentences of 28 tokens, widths 128, 160 and 256, forward
and backward, one core of an AMD EPYC with AVX2). Only the loop's maps can be prepacked.

Shapes: B sentences, T positions, I input width, H = d_model, P output width, G gates (4 H or 3 H).
"""

from __future__ import annotations

__all__ = ["Cell", "GroupedLinear", "Hidden", "make_cell"]

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from s2s import ConfigError
from s2s.backend import device_of, operators
from s2s.nn import Linear

if TYPE_CHECKING:
    from collections.abc import Callable

    from s2s_recurrent import RNNConfig

WIDE = 128
"""Width from which on torch's own kernel for a GRU is faster on a CPU than the loop"""


class Hidden(NamedTuple):
    """The state of a layer."""

    h: Tensor
    """[..., P], the output"""
    c: Tensor | None = None
    """[..., H], the memory of an LSTM"""

    def map(self, function: Callable[[Tensor], Tensor]) -> Hidden:
        """`function` applied to both."""
        return Hidden(function(self.h), None if self.c is None else function(self.c))


class Cell(nn.Module):
    """The recurrence of one layer: `hidden` from the last output, `input` from the layer's input, then the gates."""

    input: nn.Module
    hidden: nn.Module
    d_out: int
    d_gates: int
    """Width of the input's part"""
    shows_parts: bool
    """Whether the next layer reads the input's parts"""

    @abstractmethod
    def zero(self, *shape: int, like: Tensor) -> Hidden:
        """The state before any input: [*shape, ·], in fp32 or more, regardless of autocast."""

    @abstractmethod
    def step(self, part: Tensor, state: Hidden) -> Hidden:
        """The input's part [..., G] and the state before it -> the state after it."""

    @abstractmethod
    def whole(self, x: Tensor | PackedSequence, state: Hidden) -> tuple[Tensor, Hidden]:
        """All steps in one call to torch: [B, T, I] or packed -> outputs of the same form, last state."""

    @property
    def is_plain(self) -> bool:
        """Whether a whole sequence can be one call: two maps, neither prepacked nor with hooks, which adapters have."""
        return all(isinstance(m, Linear) and m.is_plain for m in (self.input, self.hidden))

    def forward(self, x: Tensor, state: Hidden, lengths: Tensor | None = None) -> tuple[Tensor, Tensor | None, Hidden]:
        """[B, T, I] -> outputs [B, T, P], the input's parts [B, T, G] if they are read, and the state after `lengths`
        [B] tokens.

        Without lengths, after all tokens. Values after a sentence's end are arbitrary.
        """
        if self._calls_torch(x, lengths):
            h, last = self.whole(x, state) if lengths is None else self._packed(x, state, lengths)
            return h, self.input(x) if self.shows_parts else None, last
        parts = self.input(x.transpose(0, 1))  # [T, B, G]
        states = self.steps(parts, state)
        at = (-1,) if lengths is None else (lengths - 1, torch.arange(len(lengths), device=lengths.device))
        shown = parts.transpose(0, 1) if self.shows_parts else None
        return states.h.transpose(0, 1), shown, states.map(lambda t: t[at])

    def steps(self, parts: Tensor, state: Hidden) -> Hidden:
        """The input's parts [T, B, G] and the state before them -> the states after each, [T, B, ·]"""
        states = []
        for part in parts:
            state = self.step(part, state)
            states.append(state)
        cells = [s.c for s in states if s.c is not None]
        return Hidden(torch.stack([s.h for s in states]), torch.stack(cells) if cells else None)

    def _calls_torch(self, x: Tensor, lengths: Tensor | None) -> bool:
        """Whether torch's kernel is the fastest way."""
        del lengths
        return self.is_plain and device_of(x.device).has_recurrent_kernels

    def _packed(self, x: Tensor, state: Hidden, lengths: Tensor) -> tuple[Tensor, Hidden]:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None
        assert back is not None
        h, state = self.whole(packed, state.map(lambda t: t.index_select(0, order)))
        whole = PackedSequence(h, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        h, _ = pad_packed_sequence(whole, batch_first=True, total_length=x.size(1))
        return h, state.map(lambda t: t.index_select(0, back))


class LSTM(Cell):
    """Hochreiter and Schmidhuber (1997), with a forget gate; one bias."""

    def __init__(self, d_in: int, config: RNNConfig) -> None:
        super().__init__()
        d, self.d_out = config.d_model, config.d_projection or config.d_model
        self.d_model, gates = d, 4 * d
        self.d_gates, self.shows_parts = config.d_factor or gates, config.fast_forward
        self.expand: nn.Module = nn.Identity()
        if config.n_groups > 1:
            self.input = GroupedLinear(d_in, gates, config.n_groups)
            self.hidden = GroupedLinear(self.d_out, gates, config.n_groups, bias=False)
        else:
            self.input = Linear(d_in, self.d_gates, bias=config.d_factor is None)
            self.hidden = Linear(self.d_out, self.d_gates, bias=False)
            if config.d_factor is not None:
                self.expand = Linear(config.d_factor, gates)
        self.projection = Linear(d, self.d_out, bias=False) if config.d_projection else nn.Identity()

    @property
    def is_plain(self) -> bool:
        return super().is_plain and isinstance(self.expand, nn.Identity)

    def zero(self, *shape: int, like: Tensor) -> Hidden:
        return Hidden(zeros(*shape, self.d_out, like=like), zeros(*shape, self.d_model, like=like))

    def step(self, part: Tensor, state: Hidden) -> Hidden:
        gates = self.expand(part + self.hidden(state.h))
        i, f, g, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * state.c + i.sigmoid() * g.tanh()
        return Hidden(self.projection(o.sigmoid() * c.tanh()), c)

    def steps(self, parts: Tensor, state: Hidden) -> Hidden:
        if not self.is_plain or isinstance(self.projection, Linear):
            return super().steps(parts, state)
        assert isinstance(self.hidden, Linear)
        assert state.c is not None
        return Hidden(*operators.lstm(parts, self.hidden.weight, state.h, state.c))

    def whole(self, x: Tensor | PackedSequence, state: Hidden) -> tuple[Tensor, Hidden]:
        assert state.c is not None
        projection = [self.projection.weight] if isinstance(self.projection, Linear) else []
        weights, first = [*torch_weights(self), *projection], (state.h[None], state.c[None])
        if isinstance(x, PackedSequence):
            h, last, c = torch.lstm(x.data, x.batch_sizes, first, weights, True, 1, 0.0, self.training, False)
        else:
            h, last, c = torch.lstm(x, first, weights, True, 1, 0.0, self.training, False, True)
        return h, Hidden(last[0], c[0])


class GRU(Cell):
    """Cho et al. (2014), in cuDNN's form: the reset gate scales the product with the state, not the state."""

    def __init__(self, d_in: int, config: RNNConfig) -> None:
        super().__init__()
        self.d_out, self.d_gates, self.shows_parts = config.d_model, 3 * config.d_model, config.fast_forward
        self.input = Linear(d_in, self.d_gates)
        self.hidden = Linear(self.d_out, self.d_gates, bias=False)

    def zero(self, *shape: int, like: Tensor) -> Hidden:
        return Hidden(zeros(*shape, self.d_out, like=like))

    def step(self, part: Tensor, state: Hidden) -> Hidden:
        (r, z, n), (u_r, u_z, u_n) = part.chunk(3, dim=-1), self.hidden(state.h).chunk(3, dim=-1)
        update = (z + u_z).sigmoid()
        new = (n + (r + u_r).sigmoid() * u_n).tanh()
        return Hidden(new + update * (state.h - new))

    def _calls_torch(self, x: Tensor, lengths: Tensor | None) -> bool:
        fp32 = x.is_cpu and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        wide = self.is_plain and fp32 and lengths is None and self.d_out >= WIDE
        return wide or super()._calls_torch(x, lengths)

    def whole(self, x: Tensor | PackedSequence, state: Hidden) -> tuple[Tensor, Hidden]:
        weights, first = torch_weights(self), state.h[None]
        if isinstance(x, PackedSequence):
            h, last = torch.gru(x.data, x.batch_sizes, first, weights, True, 1, 0.0, self.training, False)
        else:
            h, last = torch.gru(x, first, weights, True, 1, 0.0, self.training, False, True)
        return h, Hidden(last[0])


class GroupedLinear(nn.Module):
    """Independent maps, each from a part of the input to a part of every gate.

    The outputs of all groups to one gate are contiguous, so that the gates can be split.
    """

    def __init__(self, d_in: int, d_gates: int, n_groups: int, *, bias: bool = True) -> None:
        super().__init__()
        if d_in % n_groups or d_gates % (4 * n_groups):
            raise ConfigError(
                f"arch.n_groups={n_groups} must divide d_model and the width of every layer's input, here {d_in}"
            )
        self.n_groups = n_groups
        self.weight = nn.Parameter(torch.empty(n_groups, d_gates // n_groups, d_in // n_groups))
        self.bias = nn.Parameter(torch.empty(d_gates)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., G]"""
        parts = x.unflatten(-1, (self.n_groups, -1)).flatten(0, -3).transpose(0, 1)  # [g, N, I / g]
        gates = (parts @ self.weight.mT).unflatten(-1, (4, -1))  # [g, N, 4, H / g]
        gates = gates.permute(1, 2, 0, 3).flatten(1).unflatten(0, x.shape[:-1])
        return gates if self.bias is None else gates + self.bias


def make_cell(d_in: int, config: RNNConfig) -> Cell:
    """The cell that `arch.cell` names."""
    return LSTM(d_in, config) if config.cell == "lstm" else GRU(d_in, config)


def zeros(*shape: int, like: Tensor) -> Tensor:
    return torch.zeros(*shape, device=like.device, dtype=torch.promote_types(like.dtype, torch.float32))


def torch_weights(cell: Cell) -> list[Tensor]:
    """The weights as torch's kernels expect them, which add a second bias."""
    assert isinstance(cell.input, Linear)
    assert isinstance(cell.hidden, Linear)
    return [cell.input.weight, cell.hidden.weight, cell.input.bias, torch.zeros_like(cell.input.bias)]
