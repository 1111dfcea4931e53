"""A decoder's whole step as one call: where rows are few and narrow, calls take longer than arithmetic.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, S source length, h heads, D = d_model.
"""

from __future__ import annotations

__all__ = ["DecoderSublayers", "FusedDecoder"]

import ctypes
from typing import TYPE_CHECKING, NamedTuple

import torch

from s2s.backend.kernels.library import call
from s2s.backend.kernels.structs import LayerStruct, NormStruct, StepStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from s2s.backend.kernels.linear import PrepackedLinear


class DecoderSublayers(NamedTuple):
    """A layer: self-attention over the paths so far, cross-attention, and max(0, x W1 + b1) W2 + b2."""

    linears: Sequence[PrepackedLinear]
    """Of self-attention: of queries, keys and values together, and of the output; of cross-attention: of queries and
    of the output; W1 and W2"""
    norms: Sequence[nn.LayerNorm]
    """Of each of the three"""


class FusedDecoder:
    """Layers whose step is one function in C."""

    def __init__(self, layers: Sequence[DecoderSublayers], heads: tuple[int, int, int], *, pre_norm: bool) -> None:
        """heads: h, d_k, d_v; pre_norm: whether norms stand before the sub-layers or after their residual sums."""
        self.tensors = layers  # the structures only point to what these own
        self.layers = (LayerStruct * len(layers))(*map(_layer, layers))
        self.sizes = dict(zip(("h", "d_k", "d_v"), heads, strict=True))
        self.pre_norm = pre_norm

    def __call__(
        self,
        x: Tensor,
        nodes: Sequence[Tensor],
        path: Tensor,
        length: Tensor,
        sources: Sequence[tuple[Tensor, Tensor]],
        seen: Tensor,
    ) -> Tensor:
        """x [B, K, D] -> [B, K, D], by each layer's nodes [B, N, h * (d_k + d_v)], where the paths [B, K, L] end.

        The first length [B] nodes of a path count. sources: keys and values [B, h, S, d]; seen [B, S], True at tokens.
        """
        out = x.clone(memory_format=torch.contiguous_format)
        path, length, seen = (t.contiguous() for t in (path, length, seen))
        alive = [path, length, seen]
        for layer, own, source in zip(self.layers, nodes, sources, strict=True):
            assert own.is_contiguous()
            keys, values = (t.contiguous() for t in source)
            layer.nodes, layer.keys, layer.values = own.data_ptr(), keys.data_ptr(), values.data_ptr()
            alive += keys, values
        n_sentences, beam, width = x.shape
        sizes = {"B": n_sentences, "K": beam, "N": nodes[0].size(1), "L": path.size(2), "S": seen.size(1), "D": width}
        pointers = {"path": path.data_ptr(), "length": length.data_ptr(), "seen": seen.data_ptr()}
        step = StepStruct(**sizes, **self.sizes, **pointers, pre_norm=self.pre_norm)
        call("s2s_decoder_step", self.layers, len(self.layers), ctypes.byref(step), out)
        return out


def _layer(sublayers: DecoderSublayers) -> LayerStruct:
    return LayerStruct(*(linear.struct for linear in sublayers.linears), *map(_norm, sublayers.norms))


def _norm(norm: nn.LayerNorm) -> NormStruct:
    return NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)
