"""The Extended Neural GPU (Kaiser and Bengio, 2016, "Can Active Memory Replace Attention?", section 2).

Shapes: B sentences, K hypotheses, S source length, T target length, m maps, L rows and w columns of the image, V target
vocabulary. Images are [B, m, L, w].
"""

from __future__ import annotations

__all__ = ["NeuralGPU"]

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s import Memory, Seq2Seq, State
from s2s.nn import Dropout, Linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Side, Vocab
    from s2s_neural_gpu import NeuralGPUConfig


@dataclass
class Image(Memory):
    """The image after the encoder's last step, as `hidden`."""

    real: Tensor
    """[B, L], True in the rows of the sentence's own image"""


@dataclass
class NeuralGPUState(State):
    """`sentence` is `Image.real`; `hypothesis` is image, tape [B, K, m, L] and number of tokens [B, K]."""

    supports_join: ClassVar[bool] = True


class NeuralGPU(Seq2Seq):
    """The encoder changes the whole image once per source token; then each decoding step changes it again, reads the
    previous outputs from a tape, and reads the next output from the row of its position."""

    def __init__(self, config: NeuralGPUConfig, vocab: Vocab) -> None:
        super().__init__()
        self.config, self.n_tgt = config, vocab.tgt
        m = config.d_model
        self.src, self.tgt = nn.Embedding(vocab.src, m), nn.Embedding(vocab.tgt, m)
        self.encoder = nn.ModuleList([ConvGRU(config, tape=False) for _ in range(config.n_layers)])
        self.decoder = nn.ModuleList([ConvGRU(config, tape=True) for _ in range(config.n_layers)])
        self.out = Linear(m, vocab.tgt)
        self.dropout = Dropout(config.dropout)

    def encode(self, src: Tensor, pad: Tensor) -> Image:
        """src, pad [B, S] -> hidden [B, m, L, w]; a sentence's image no longer changes after as many steps as it has
        tokens."""
        n_tokens, n_rows = (~pad).sum(1), int(self.n_rows(src.size(1)))
        real = torch.arange(n_rows, device=src.device) < self.n_rows(n_tokens).long()[:, None]  # [B, L]
        column = self.src(src).masked_fill(pad[..., None], 0.0).mT  # [B, m, S]
        image = F.pad(column[..., None], (0, self.config.width - 1, 0, n_rows - src.size(1)))  # [B, m, L, w]
        for number in range(src.size(1)):
            changed = self._change(self.encoder, image, real, None)
            image = torch.where((number < n_tokens)[:, None, None, None], changed, image)
        return Image(image, pad, real)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, m]"""
        state: State = self.start(memory)
        hidden = []
        for token in tgt.split(1, dim=1):
            read, state = self._generate_image(token, state)
            hidden.append(read)
        return torch.cat(hidden, dim=1)

    def project(self, hidden: Tensor) -> Tensor:
        """[..., m] -> logits [..., V]"""
        return self.out(hidden)

    def start(self, memory: Memory) -> NeuralGPUState:
        """One hypothesis for each sentence, with an empty tape."""
        assert isinstance(memory, Image)
        image = memory.hidden[:, None]
        counts = torch.zeros(image.shape[:2], dtype=torch.long, device=image.device)
        return NeuralGPUState(sentence=memory.real, hypothesis=(image, torch.zeros_like(image[..., 0]), counts))

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        hidden, state = self._generate_image(token, state)
        return self.project(hidden), state

    def vocab_rows(self) -> dict[str, Side]:
        """Both embeddings and the softmax."""
        return {"src.weight": "src", "tgt.weight": "tgt", "out.weight": "tgt", "out.bias": "tgt"}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float:
        """Two operations per weight of a convolution, cell and step, plus the softmax."""
        weights = lambda layers: sum(p.numel() for p in layers.parameters() if p.dim() > 1)  # noqa: E731
        encoder, decoder = weights(self.encoder), weights(self.decoder)
        total = 0.0
        for s, t in zip(src, tgt, strict=True):
            cells = int(self.n_rows(s)) * self.config.width
            total += cells * (s * encoder + t * decoder) + t * self.config.d_model * self.n_tgt
        return 2 * total

    def n_rows(self, n: Any) -> Any:
        """Rows of the image for a source of n tokens, to be rounded down; n is a number or a tensor."""
        return n * max(self.config.length_ratio, 1.0) + self.config.length_extra

    def _generate_image(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> [B, K, m]; the tape holds the previous outputs, without bos."""
        image, tape, n = state.hypothesis  # [B, K, m, L, w], [B, K, m, L], [B, K]
        real = state.sentence
        rows = real.sum(1)[:, None]
        last = (n - 1).clamp(min=0).minimum(rows - 1)[:, :, None, None].expand(*n.shape, tape.size(2), 1)
        now = n.minimum(rows - 1)[:, :, None, None].expand(*n.shape, tape.size(2), 1)
        written = torch.where((n > 0)[..., None], self.tgt(token), tape.gather(3, last)[..., 0])
        tape = tape.scatter(3, last, written[..., None])
        flat = real[:, None].expand(-1, n.size(1), -1).flatten(0, 1)  # [B K, L]
        image = self._change(self.decoder, image.flatten(0, 1), flat, tape.flatten(0, 1)).unflatten(0, n.shape)
        hidden = image[..., 0].gather(3, now)[..., 0]
        return hidden, replace(state, hypothesis=(image, tape, n + 1))

    def _change(self, layers: nn.ModuleList, image: Tensor, real: Tensor, tape: Tensor | None) -> Tensor:
        """One step of all units; rows [B, L] beyond a sentence's image stay 0."""
        shown = real[:, None, :, None].to(image.dtype)
        for layer in layers:
            image = layer(image, tape, self.dropout) * shown
        return image


class ConvGRU(nn.Module):
    """u s + (1 - u) tanh(U (r s) + W p + B), with gates u and r that are convolutions of both image s and tape p
    (equation of CGRU, and of CGRU^d with the tape)."""

    def __init__(self, config: NeuralGPUConfig, *, tape: bool) -> None:
        super().__init__()
        m, kernel, around = config.d_model, config.kernel, config.kernel // 2
        self.gates = nn.Conv2d(m, 2 * m, kernel, padding=around)
        self.new = nn.Conv2d(m, m, kernel, padding=around)
        self.tape = nn.Conv2d(m, 3 * m, kernel, padding=around, bias=False) if tape else None
        self.width = config.width
        assert self.gates.bias is not None
        with torch.no_grad():
            self.gates.bias[:m].fill_(1.0)  # at first, an image is kept rather than changed

    def forward(self, s: Tensor, tape: Tensor | None, dropout: nn.Module) -> Tensor:
        """s [B, m, L, w], tape [B, m, L] as the first column of an image -> [B, m, L, w]"""
        gates, tape_input = self.gates(s), None
        if self.tape is not None and tape is not None:
            *gate_inputs, tape_input = self.tape(F.pad(tape[..., None], (0, self.width - 1))).chunk(3, dim=1)
            gates = gates + torch.cat(gate_inputs, 1)
        u, r = gates.sigmoid().chunk(2, dim=1)
        new = self.new(r * s)
        new = new if tape_input is None else new + tape_input
        return u * s + (1 - u) * dropout(new.tanh())
