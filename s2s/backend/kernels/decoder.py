"""A decoder's step as one call: where rows are few and narrow, calls take more time than arithmetic.

Shapes: B sentences, K hypotheses, N room for nodes, T room for symbols, S source length, h heads, D = d_model.
"""

from __future__ import annotations

__all__ = ["Decoder", "Sublayers"]

import ctypes
from ctypes import c_double, c_int64, c_void_p
from typing import TYPE_CHECKING, NamedTuple

import torch

from s2s.backend.kernels.library import call
from s2s.backend.kernels.linear import Map, Product

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

MAPS = ("qkv", "out", "query", "source_out", "inner", "outer")
NORMS = ("paths", "source", "feed_forward")
SIZES = ("B", "K", "N", "T", "S", "h", "d_k", "d_v", "D")


class Sublayers(NamedTuple):
    """A layer: attention over the paths so far, attention over the source, and max(0, x W1 + b1) W2 + b2."""

    maps: Sequence[Product]
    """To queries, keys and values, and out of attention; to queries of the source, and out of it; W1 and W2"""
    norms: Sequence[nn.LayerNorm]
    """Of each of the three"""


class Decoder:
    """Layers whose step is in C."""

    def __init__(self, layers: Sequence[Sublayers], heads: tuple[int, int, int], *, pre: bool) -> None:
        """heads: h, d_k, d_v; pre: whether norms stand before the sub-layers or after their sums."""
        self.tensors = layers  # the structures only point to what they hold
        self.layers = (_Layer * len(layers))(*map(_layer, layers))
        self.sizes = dict(zip(("h", "d_k", "d_v"), heads, strict=True))
        self.pre = pre

    def __call__(
        self,
        x: Tensor,
        nodes: Sequence[Tensor],
        path: Tensor,
        length: Tensor,
        sources: Sequence[tuple[Tensor, Tensor]],
        seen: Tensor,
    ) -> Tensor:
        """x [B, K, D] -> [B, K, D], by each layer's nodes [B, N, h * (d_k + d_v)], where the paths [B, K, T] end.

        Of a path, length [B] nodes count. sources: keys and values [B, h, S, d]; seen [B, S], True at symbols.
        """
        held = [
            x.clone(memory_format=torch.contiguous_format),
            path.contiguous(),
            length.contiguous(),
            seen.contiguous(),
        ]
        for layer, own, source in zip(self.layers, nodes, sources, strict=True):
            assert own.is_contiguous()
            keys, values = (t.contiguous() for t in source)
            layer.nodes, layer.keys, layer.values = own.data_ptr(), keys.data_ptr(), values.data_ptr()
            held += keys, values
        out, path, length, seen = held[:4]
        n_sentences, beam, width = x.shape
        sizes = {"B": n_sentences, "K": beam, "N": nodes[0].size(1), "T": path.size(2), "S": seen.size(1), "D": width}
        pointers = {"path": path.data_ptr(), "length": length.data_ptr(), "seen": seen.data_ptr()}
        step = _Step(**sizes, **self.sizes, **pointers, pre=self.pre)
        call("s2s_decoder", self.layers, len(self.layers), ctypes.byref(step), out)
        return out


class _Norm(ctypes.Structure):
    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_double))


class _Layer(ctypes.Structure):
    _fields_ = (
        *((name, Map) for name in MAPS),
        *((name, _Norm) for name in NORMS),
        *((name, c_void_p) for name in ("nodes", "keys", "values")),
    )


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, c_int64) for name in SIZES),
        *((name, c_void_p) for name in ("path", "length", "seen")),
        ("pre", c_int64),
    )


def _layer(sublayers: Sublayers) -> _Layer:
    return _Layer(*(product.map for product in sublayers.maps), *map(_norm, sublayers.norms))


def _norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps)
