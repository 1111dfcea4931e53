"""An encoder's layers as one call; see `s2s.backend.fused_encoder`.

Shapes: B sentences of S tokens, h heads, D = d_model.
"""

from __future__ import annotations

__all__ = ["FusedEncoder"]

import ctypes
from typing import TYPE_CHECKING, cast

import torch

from s2s_cpu.decoder import norm_struct
from s2s_cpu.library import call
from s2s_cpu.structs import EncoderLayerStruct, EncodingStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from s2s.backend import EncoderSublayers
    from s2s_cpu.prepacked import PrepackedLinear


class FusedEncoder:
    """Layers that are one function in C, with the final norm, if there is one."""

    def __init__(
        self, layers: Sequence[EncoderSublayers], heads: tuple[int, int, int], pre_norm: bool, norm: nn.LayerNorm | None
    ) -> None:
        """heads: h, d_k, d_v; pre_norm: whether norms stand before the sub-layers or after their residual sums."""
        self.tensors = layers, norm  # own the memory that the structures point to
        self.layers = (EncoderLayerStruct * len(layers))(*map(_layer, layers))
        self.heads, self.pre_norm, self.norm = heads, pre_norm, norm_struct(norm)

    def __call__(self, x: Tensor, pad: Tensor) -> Tensor:
        """x [B, S, D], pad [B, S] -> [B, S, D]"""
        out, pad = x.clone(memory_format=torch.contiguous_format), pad.contiguous()
        n_sentences, n_tokens, width = x.shape
        sizes = n_sentences, n_tokens, *self.heads, width
        encoding = EncodingStruct(*sizes, pad.data_ptr(), self.pre_norm, self.norm)
        call("s2s_encoder", self.layers, len(self.layers), ctypes.byref(encoding), out)
        return out


def _layer(sublayers: EncoderSublayers) -> EncoderLayerStruct:
    linears = (cast("PrepackedLinear", linear).struct for linear in sublayers.linears)
    return EncoderLayerStruct(*linears, *map(norm_struct, sublayers.norms))
