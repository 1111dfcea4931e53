"""Cross-entropy of outputs, and of attention against alignments (Garg et al., 2019, sections 3.2 and 3.3).

Shapes: B sentences, S source length, T target length, both with eos.
"""

from __future__ import annotations

__all__ = ["GuidedAlignment", "alignment_loss"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s import ConfigError, Context, Mean, Objective, Sums, rows_without_eos
from s2s.nn import LabelSmoothed, LabelSmoothedConfig, Positions
from s2s.tensors import host_copy
from s2s_guided_alignment.alignments import alignments

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq
    from s2s_guided_alignment import GuidedAlignmentConfig


class GuidedAlignment(Objective):
    """Sum over target tokens of the smoothed cross-entropy + weight * the cross-entropy of the attention.

    The second is that of the paper's eq. 5 with one difference: a target token that is aligned to nothing, as the end
    token always is, has none, where the paper's matrix has a row of zeros as well.
    """

    extras = ("nll", "alignment")

    def __init__(self, config: GuidedAlignmentConfig, context: Context) -> None:
        self.weight, self.vocab = config.weight, context.vocab
        self.label_smoothed = LabelSmoothed(LabelSmoothedConfig(eps=config.eps))
        self.align = alignments(config, context.task)

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: nll of the target; alignment, the cross-entropy of attention for each aligned target token."""
        hidden, attention = model.forward_with_attention(batch.src, batch.src_pad, batch.tgt_in)
        if attention is None:
            raise ConfigError("objective=guided_alignment: this architecture gives no attention (Seq2Seq.attention)")
        targets = self.alignment_matrix(batch).to(attention.device)
        loss, n_aligned = alignment_loss(attention, targets)
        positions = Positions(hidden.flatten(0, -2), batch.tgt_out.flatten(), ~batch.tgt_pad.flatten())
        likelihood, nll = self.label_smoothed.position_sums(model, positions)
        alignment = Mean(loss.detach(), n_aligned)
        return Sums(likelihood + self.weight * loss, batch.n_tokens, {"nll": nll, "alignment": alignment})

    def alignment_matrix(self, batch: Batch) -> Tensor:
        """Which source tokens each prediction is aligned to: [B, T, S], 1 or 0"""
        matrix = torch.zeros(*batch.tgt_out.shape, batch.src.size(1))
        sources = rows_without_eos(batch.src, batch.src_pad)
        targets = rows_without_eos(batch.tgt_out, batch.tgt_pad)
        before = host_copy(batch.tgt_pad).int().argmin(-1).tolist()  # predictions of starting tokens
        for row, first, src, tgt in zip(matrix, before, sources, targets, strict=True):
            row[first : first + len(tgt), : len(src)] = torch.from_numpy(self.align(src, tgt))
        return matrix


def alignment_loss(attention: Tensor, aligned: Tensor) -> tuple[Tensor, Tensor]:
    """Attention and alignment matrix [B, T, S] -> the sum of -sum_j G_ij log A_ij, and how many rows have a G.

    G is the alignment matrix with rows that sum to 1.
    """
    n = aligned.sum(-1, keepdim=True)
    g = aligned / n.clamp(min=1)
    log_attention = attention.clamp(min=torch.finfo(attention.dtype).tiny).log()
    return -(g * log_attention).sum(), (n > 0).sum()
