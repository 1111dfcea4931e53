"""ByteNet (Kalchbrenner et al., 2016): sections refer to that paper.

Shapes: B sentences, K hypotheses, S source length, T target length, U columns of the unfolded source, V vocabulary,
D = d_model, which is 2 d in the paper.
"""

from __future__ import annotations

__all__ = ["ByteNet"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import Memory, Seq2Seq, State
from s2s.backend import device_of
from s2s.nn import Dropout, Linear
from s2s_convolutional.windows import empty_window, slide, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from s2s import Side, Vocab
    from s2s_convolutional import ByteNetConfig


class Window(NamedTuple):
    """The decoding state of a hypothesis."""

    position: Tensor
    """[B, K]"""
    inputs: tuple[Tensor, ...]
    """The last inputs of each block's convolution, [B, K, (k - 1) r, D / 2]"""


@dataclass
class ByteNetState(State):
    """`sentence` holds the columns [B, U, D], 0 where there is none; `hypothesis` is a `Window`."""

    supports_join: ClassVar[bool] = True
    supports_capture: ClassVar[bool] = True


class ByteNet(Seq2Seq):
    """A decoder stacked on an encoder, column by column (section 3)."""

    def __init__(self, config: ByteNetConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.vocab, d = config, vocab, config.d_model
        self.src = nn.Embedding(vocab.src, d, padding_idx=vocab.src_pad)
        self.tgt = nn.Embedding(vocab.tgt, d, padding_idx=vocab.pad)
        dilations = config.dilations * config.n_sets
        self.encoder, self.decoder = (
            cast("list[Block]", nn.ModuleList(Block(config, dilation) for dilation in dilations)) for _ in range(2)
        )
        self.norm, self.out = nn.LayerNorm(d, eps=config.norm_eps), Linear(d, d)
        self.softmax = Linear(d, vocab.tgt)
        self.init_weights()

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """src, pad [B, S] -> columns [B, U, D], as many for each sentence as its own length unfolds to."""
        lengths = self._unfolded((~pad).sum(1))
        n = int(self._unfolded(torch.tensor(src.size(1))))
        src = F.pad(src, (0, max(n - src.size(1), 0)), value=self.vocab.src_pad)[:, :n]
        outside = (torch.arange(n, device=src.device) >= lengths[:, None])[..., None]  # [B, U, 1]
        x = self.src(src)
        for block in self.encoder:
            x = block(x, lambda x, of=block: windows(x.masked_fill(outside, 0.0), of.kernel, of.dilation, causal=False))
        return Memory(x.masked_fill(outside, 0.0), pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, D]"""
        n = tgt.size(1)
        columns = F.pad(memory.hidden, (0, 0, 0, max(n - memory.hidden.size(1), 0)))[:, :n]
        x = self.tgt(tgt) + columns
        for block in self.decoder:
            x = block(x, lambda x, of=block: windows(x, of.kernel, of.dilation, causal=True))
        return self._read(x)

    def project(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]"""
        return self.softmax(hidden)

    def start(self, memory: Memory) -> ByteNetState:
        """Zeros as the previous inputs of every convolution."""
        n, width = len(memory.pad), self.config.d_model // 2
        inputs = tuple(empty_window(n, b.kernel, width, memory.hidden, b.dilation) for b in self.decoder)
        position = torch.zeros(n, 1, dtype=torch.long, device=memory.pad.device)
        return ByteNetState(sentence=memory.hidden, hypothesis=Window(position, inputs))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        window, inputs = state.hypothesis, []
        x = self.tgt(token) + column(state.sentence, window.position)
        for block, last in zip(self.decoder, window.inputs, strict=True):

            def widen(x: Tensor, last: Tensor = last, dilation: int = block.dilation) -> Tensor:
                seen, rest = slide(last, x, dilation)
                inputs.append(rest)
                return seen

            x = block(x, widen)
        return self.project(self._read(x)), replace(state, hypothesis=Window(window.position + 1, tuple(inputs)))

    def vocab_rows(self) -> dict[str, Side]:
        """Both embeddings, and the softmax's matrix and bias."""
        return {"src.weight": "src", "tgt.weight": "tgt", "softmax.weight": "tgt", "softmax.bias": "tgt"}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Operations of all products of a forward pass over pairs of these lengths, with eos and without padding."""
        d, n_blocks = self.config.d_model, len(self.decoder)
        blocks = n_blocks * (d * d + self.config.kernel * (d // 2) ** 2)
        columns = self._unfolded(torch.from_numpy(np.asarray(src))).sum().item()
        n_tgt = float(np.asarray(tgt).sum())
        return float(2 * (columns * blocks + n_tgt * (blocks + d * d + d * self.vocab.tgt)))

    def _unfolded(self, lengths: Tensor) -> Tensor:
        """Columns for sources of these lengths (section 3.2); 0 for an empty source."""
        wide = lengths.to(device_of(lengths.device).wide_dtype)
        columns = (wide * self.config.unfold_a).ceil().long() + self.config.unfold_b
        return columns * (lengths > 0)

    def _read(self, x: Tensor) -> Tensor:
        """The last block's outputs through one more linear map: [..., D] -> [..., D]"""
        return self.out(self.norm(x).relu()).relu()

    @torch.no_grad()
    def init_weights(self) -> None:
        """Not in the paper: embeddings N(0, 1), linear maps N(0, 2 / inputs), as a ReLU follows them, biases 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight)
                module.weight[module.padding_idx].zero_()
        nn.init.normal_(self.softmax.weight, std=self.config.d_model**-0.5)


class Block(nn.Module):
    """A residual block (Figure 3, left): down to half the width, a dilated convolution, and back."""

    def __init__(self, config: ByteNetConfig, dilation: int) -> None:
        super().__init__()
        d, half = config.d_model, config.d_model // 2
        self.kernel, self.dilation = config.kernel, dilation
        self.norms = nn.Sequential(*(nn.LayerNorm(width, eps=config.norm_eps) for width in (d, half, half)))
        self.narrow, self.convolution, self.widen = Linear(d, half), Linear(config.kernel * half, half), Linear(half, d)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, seen: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, ·, D] -> [B, ·, D]; `seen` gives the convolution's inputs from [B, ·, D / 2]"""
        first, second, third = self.norms
        y = self.narrow(first(x).relu())
        y = self.convolution(seen(second(y).relu()))
        return x + self.dropout(self.widen(third(y).relu()))


def column(columns: Tensor, position: Tensor) -> Tensor:
    """columns [B, U, D], position [B, K] -> [B, K, D], zeros beyond the last column."""
    if not columns.size(1):
        return columns.new_zeros(*position.shape, columns.size(2))
    index = position.clamp(max=columns.size(1) - 1)[..., None].expand(-1, -1, columns.size(2))
    return columns.gather(1, index) * (position < columns.size(1))[..., None]
