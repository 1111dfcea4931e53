"""Converts what a model returns into values of hypotheses.

Shapes: B sentences, K hypotheses per sentence, V target vocabulary.
"""

from __future__ import annotations

__all__ = ["gather_hypotheses", "log_probs"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from s2s.tensors import known_copy, remember_copy

if TYPE_CHECKING:
    from s2s.model import Seq2Seq


def log_probs(model: Seq2Seq, logits: Tensor) -> Tensor:
    """Log-probabilities [..., V] in fp32 from what the model returns, [..., V]."""
    return logits.float() if model.returns_log_probs else logits.float().log_softmax(-1)


def gather_hypotheses(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b]] for every b: values [B, K, ...], index [B, K'] -> [B, K', ...]

    The host has the result if it has both (`s2s.tensors.known_copy`).
    """
    gathered = _gathered(values, index)
    known_values, known_index = known_copy(values), known_copy(index)
    if known_values is not None and known_index is not None:
        remember_copy(gathered, _gathered(known_values, known_index))
    return gathered


def _gathered(values: Tensor, index: Tensor) -> Tensor:
    rows = torch.arange(index.size(0), device=index.device)[:, None]
    return values[rows, index]
