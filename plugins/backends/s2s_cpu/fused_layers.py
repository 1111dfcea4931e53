"""An encoder, and a decoder's whole step, as one call: with few and narrow rows, calls take longer than arithmetic.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, S source length, h heads, D = d_model.
"""

from __future__ import annotations

__all__ = ["FusedDecoder", "FusedEncoder", "accepts_layers", "fused_decoder"]

import ctypes
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from s2s_cpu.library import call
from s2s_cpu.prepacked import PrepackedLinear
from s2s_cpu.structs import EncoderLayerStruct, EncodingStruct, LayerStruct, NormStruct, StepStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from s2s.backend import fused


def fused_decoder(
    layers: Sequence[fused.DecoderSublayers], heads: tuple[int, int, int], pre_norm: bool, norm: nn.LayerNorm | None
) -> FusedDecoder:
    """See `s2s.backend.fused_decoder`."""
    return FusedDecoder(layers, heads, pre_norm=pre_norm, norm=norm)


def accepts_layers(layers: Sequence[fused.DecoderSublayers | fused.EncoderSublayers], *_: object) -> bool:
    """Whether all of their linear maps are prepacked for the functions in C."""
    return all(isinstance(linear, PrepackedLinear) for layer in layers for linear in layer.linears)


class Structures(NamedTuple):
    """The structures of a step."""

    layers: ctypes.Array[LayerStruct]
    step: StepStruct
    alive: list[Tensor]
    """Tensors that the structures point to, kept alive with them"""


class FusedDecoder:
    """Layers whose step is one function in C, with the final norm, if there is one."""

    def __init__(
        self,
        layers: Sequence[fused.DecoderSublayers],
        heads: tuple[int, int, int],
        *,
        pre_norm: bool,
        norm: nn.LayerNorm | None,
    ) -> None:
        """heads: h, d_k, d_v; pre_norm: whether norms stand before the sub-layers or after their residual sums."""
        self.tensors = layers, norm  # own the memory that the structures point to
        self.layers = (LayerStruct * len(layers))(*map(_decoder_layer, layers))
        self.sizes = dict(zip(("h", "d_k", "d_v"), heads, strict=True))
        self.pre_norm, self.norm = pre_norm, _norm(norm)

    def __call__(self, x: Tensor, cache: fused.TreeCache) -> Tensor:
        """x [B, K, D] -> [B, K, D]; keys and values are written to the last nodes of the paths."""
        out = x.clone(memory_format=torch.contiguous_format)
        layers, step, _alive = self.structures(cache, x.size(2))
        call("s2s_decoder_step", layers, len(layers), ctypes.byref(step), out)
        return out

    def structures(self, cache: fused.TreeCache, width: int) -> Structures:
        """The arguments of a step of D = width with this cache; other threads may run steps with other caches."""
        path, length, seen = (t.contiguous() for t in (cache.path, cache.length, cache.seen))
        alive = [path, length, seen]
        layers = type(self.layers).from_buffer_copy(self.layers)
        for layer, nodes, source in zip(layers, cache.nodes, cache.sources, strict=True):
            assert nodes.is_contiguous()
            keys, values = (t.contiguous() for t in source)
            layer.nodes, layer.keys, layer.values = nodes.data_ptr(), keys.data_ptr(), values.data_ptr()
            alive += keys, values
        n_sentences, beam, room = path.shape
        sizes = {"B": n_sentences, "K": beam, "N": cache.nodes[0].size(1), "L": room, "S": seen.size(1), "D": width}
        pointers = {"path": path.data_ptr(), "length": length.data_ptr(), "seen": seen.data_ptr()}
        step = StepStruct(**sizes, **self.sizes, **pointers, pre_norm=self.pre_norm, norm=self.norm)
        return Structures(layers, step, alive)


class FusedEncoder:
    """Layers that are one function in C, with the final norm, if there is one."""

    def __init__(
        self,
        layers: Sequence[fused.EncoderSublayers],
        heads: tuple[int, int, int],
        pre_norm: bool,
        norm: nn.LayerNorm | None,
    ) -> None:
        """heads: h, d_k, d_v; pre_norm: whether norms stand before the sub-layers or after their residual sums."""
        self.tensors = layers, norm  # own the memory that the structures point to
        self.layers = (EncoderLayerStruct * len(layers))(*map(_encoder_layer, layers))
        self.heads, self.pre_norm, self.norm = heads, pre_norm, _norm(norm)

    def __call__(self, x: Tensor, pad: Tensor) -> Tensor:
        """x [B, S, D], pad [B, S] -> [B, S, D]"""
        out, pad = x.clone(memory_format=torch.contiguous_format), pad.contiguous()
        n_sentences, n_tokens, width = x.shape
        sizes = n_sentences, n_tokens, *self.heads, width
        encoding = EncodingStruct(*sizes, pad.data_ptr(), self.pre_norm, self.norm)
        call("s2s_encoder", self.layers, len(self.layers), ctypes.byref(encoding), out)
        return out


def _decoder_layer(sublayers: fused.DecoderSublayers) -> LayerStruct:
    linears = (cast("PrepackedLinear", linear).struct for linear in sublayers.linears)
    return LayerStruct(*linears, *map(_norm, sublayers.norms))


def _encoder_layer(sublayers: fused.EncoderSublayers) -> EncoderLayerStruct:
    linears = (cast("PrepackedLinear", linear).struct for linear in sublayers.linears)
    return EncoderLayerStruct(*linears, *map(_norm, sublayers.norms))


def _norm(norm: nn.LayerNorm | None) -> NormStruct:
    """The structure of a norm; without one, its weight is null."""
    return NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps) if norm else NormStruct()
