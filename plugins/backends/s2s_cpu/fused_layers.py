"""An encoder, and a decoder's whole step, as one call: with few and narrow rows, calls take longer than arithmetic.

Shapes: B sentences, K hypotheses, N room for nodes, L room for tokens, S source length, h heads, D = d_model.
"""

from __future__ import annotations

__all__ = ["FusedDecoder", "FusedEncoder", "accepts_layers", "fused_decoder"]

import ctypes
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from s2s_cpu.library import call
from s2s_cpu.prepacked import PrepackedLinear, as_prepacked
from s2s_cpu.rows import norm_struct
from s2s_cpu.structs import ACTIVATIONS, EncoderLayerStruct, EncodingStruct, LayerStruct, StackStruct, StepStruct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from s2s.backend import fused


def fused_decoder(layers: Sequence[fused.Sublayers], stack: fused.LayerStack) -> FusedDecoder:
    """See `s2s.backend.fused_decoder`."""
    return FusedDecoder(layers, stack)


def accepts_layers(layers: Sequence[fused.Sublayers], *_: object) -> bool:
    """Whether all of their linear maps are prepacked for the functions in C."""
    return all(isinstance(linear, PrepackedLinear) for layer in layers for linear in layer.linears.values())


class Structures(NamedTuple):
    """The structures of a step."""

    layers: ctypes.Array[LayerStruct]
    step: StepStruct
    alive: list[Tensor]
    """Tensors that the structures point to, kept alive with them"""


class FusedLayers:
    """Layers as structures, and the memory that these point to."""

    def __init__(self, layers: Sequence[fused.Sublayers], stack: fused.LayerStack) -> None:
        self.parts = layers, stack
        self.stack = _stack(stack, layers)

    @property
    def width(self) -> int:
        """Of the output."""
        return int(self.stack.D)

    def pointed_to(self) -> Iterator[Tensor]:
        """All tensors to which the structures point."""
        layers, stack = self.parts
        for layer in layers:
            for linear in layer.linears.values():
                yield from as_prepacked(linear).tensors.values()
        for norm in (*(norm for layer in layers for norm in layer.norms), stack.norm):
            yield from norm.parameters() if norm else ()
        if stack.relative is not None:
            yield stack.relative


class FusedDecoder(FusedLayers):
    """Layers whose step is one function in C, with the final norm, if there is one."""

    def __init__(self, layers: Sequence[fused.Sublayers], stack: fused.LayerStack) -> None:
        super().__init__(layers, stack)
        self.layers = (LayerStruct * len(layers))(*(_layer(LayerStruct, layer) for layer in layers))

    def __call__(self, x: Tensor, cache: fused.TreeCache) -> Tensor:
        """x [B, K, D] -> [B, K, D]; keys and values are written to the last nodes of the paths."""
        out = x.clone(memory_format=torch.contiguous_format)
        layers, step, _alive = self.structures(cache)
        call("s2s_decoder_step", layers, len(layers), ctypes.byref(step), out)
        return out

    def structures(self, cache: fused.TreeCache) -> Structures:
        """The arguments of a step with this cache; other threads may run steps with other caches."""
        path, length, seen = (t.contiguous() for t in (cache.path, cache.length, cache.seen))
        alive = [path, length, seen]
        layers = type(self.layers).from_buffer_copy(self.layers)
        for layer, nodes, source in zip(layers, cache.nodes, cache.sources, strict=True):
            assert nodes.is_contiguous()
            keys, values = (t.contiguous() for t in source)
            layer.nodes, layer.keys, layer.values = nodes.data_ptr(), keys.data_ptr(), values.data_ptr()
            layer.node_width = nodes.size(2)
            alive += keys, values
        n_sentences, beam, room = path.shape
        sizes = {"B": n_sentences, "K": beam, "N": cache.nodes[0].size(1), "L": room, "S": seen.size(1)}
        pointers = {"path": path.data_ptr(), "length": length.data_ptr(), "seen": seen.data_ptr()}
        return Structures(layers, StepStruct(**sizes, **pointers, stack=ctypes.pointer(self.stack)), alive)


class FusedEncoder(FusedLayers):
    """Layers that are one function in C, with the final norm, if there is one."""

    def __init__(self, layers: Sequence[fused.Sublayers], stack: fused.LayerStack) -> None:
        super().__init__(layers, stack)
        self.layers = (EncoderLayerStruct * len(layers))(*(_layer(EncoderLayerStruct, layer) for layer in layers))

    def __call__(self, x: Tensor, pad: Tensor) -> Tensor:
        """x [B, S, D], pad [B, S] -> [B, S, D]"""
        out, pad = x.clone(memory_format=torch.contiguous_format), pad.contiguous()
        encoding = EncodingStruct(*x.shape[:2], pad.data_ptr(), ctypes.pointer(self.stack))
        call("s2s_encoder", self.layers, len(self.layers), ctypes.byref(encoding), out)
        return out


Struct = TypeVar("Struct", LayerStruct, EncoderLayerStruct)


def _layer(kind: type[Struct], sublayers: fused.Sublayers) -> Struct:
    """The structure of a layer; maps that it does not have are null."""
    maps = {name: as_prepacked(linear).struct for name, linear in sublayers.linears.items()}
    names = [field[0] for field in kind._fields_ if field[0].endswith("_norm")]
    return kind(**maps, **dict(zip(names, map(norm_struct, sublayers.norms), strict=True)))


def _stack(stack: fused.LayerStack, layers: Sequence[fused.Sublayers]) -> StackStruct:
    width = as_prepacked(layers[0].linears["outer"]).n_outputs
    activation, relative = ACTIVATIONS.index(stack.activation), stack.relative
    assert relative is None or relative.is_contiguous()
    table = (None, 0) if relative is None else (relative.data_ptr(), relative.size(1))
    options = (width, stack.pre_norm, activation, stack.scale)
    return StackStruct(*stack.heads, *options, *table, norm_struct(stack.norm))
