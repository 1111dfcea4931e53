"""Tokens drawn at random: see `s2s.backend.operators`. Shapes: B sentences, K samples of each, V target tokens."""

from __future__ import annotations

__all__ = ["accepts_logits", "sample_tokens"]

import ctypes
from typing import TYPE_CHECKING

import torch

from s2s_cpu.library import call
from s2s_cpu.search_settings import sampling_rule

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.backend import operators


def sample_tokens(
    logits: Tensor, uniform: Tensor, banned: Tensor, allowed: Tensor, normalize: bool, rule: operators.SamplingRule
) -> tuple[Tensor, Tensor]:
    """logits [B, K or 1, V], uniform [B, K], banned [N], allowed [B, K, V] -> tokens, log-probabilities [B, K]"""
    logits = logits.expand(-1, uniform.size(1), -1).contiguous()
    allowed, uniform = allowed.expand_as(logits).contiguous(), uniform.contiguous()
    token, log_prob = torch.empty(uniform.shape, dtype=torch.long), logits.new_empty(uniform.shape)
    struct = sampling_rule(rule)
    sizes = (uniform.numel(), logits.size(-1))
    how = (banned, len(banned), normalize, ctypes.addressof(struct))
    call("s2s_sample", logits, *sizes, allowed, *how, uniform, 1, token, log_prob)
    return token, log_prob


def accepts_logits(logits: Tensor, uniform: Tensor, *_: object) -> bool:
    """fp32 logits on a CPU, with random numbers in fp64."""
    return logits.is_cpu and logits.dtype is torch.float32 and uniform.dtype is torch.float64
