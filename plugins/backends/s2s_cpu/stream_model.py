"""A model from source tokens to logits as structures for the functions in C, from what an architecture says of it."""

from __future__ import annotations

__all__ = ["StreamModel", "accepts_models"]

import ctypes
from typing import TYPE_CHECKING, Any

import torch

from s2s_cpu.beam_search_steps import model_struct
from s2s_cpu.fused_layers import FusedDecoder, FusedEncoder
from s2s_cpu.prepacked import PrepackedLinear, as_prepacked
from s2s_cpu.recurrent_layers import FusedGuide, RecurrentDecoder, RecurrentEncoder, accepts_cells, accepts_guidance
from s2s_cpu.structs import LinearStruct, SourceModelStruct, SourceWordsStruct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from s2s.backend import fused

Struct = ctypes.Structure | ctypes.Array[Any]


class StreamModel:
    """The structures, made once, and the memory that they point to."""

    def __init__(self, source: fused.FusedSource, target: fused.FusedModel) -> None:
        """Raises ValueError for a guide whose tables are impossible."""
        self.parts = source, target
        encoder, decoder, output = source.encoder, target.decoder, as_prepacked(target.output)
        self.encoder = encoder if isinstance(encoder, FusedEncoder) else RecurrentEncoder(encoder)
        self.decoder = decoder if isinstance(decoder, FusedDecoder) else RecurrentDecoder(decoder)
        self.guide = FusedGuide(target.guidance, output.n_outputs) if target.guidance else None
        self.begins = None if source.words is None else source.words.begins.to(torch.uint8)
        maps = [as_prepacked(linear) for linear in source.keys_values]
        self.keys_values = (LinearStruct * len(maps))(*(linear.struct for linear in maps))
        self.target = model_struct(target, self.decoder.layers)
        self.target.guidance = ctypes.addressof(self.guide.struct) if self.guide else None
        self.source = self._source(source)

    def _source(self, of: fused.FusedSource) -> SourceModelStruct:
        """Without positions."""
        struct = SourceModelStruct(D=self.target.D, M=self.encoder.width, scale=of.scale)
        if of.embedding is not None:
            struct.D, struct.embedding = of.embedding.size(1), of.embedding.data_ptr()
        layers = ctypes.cast(self.encoder.layers, ctypes.c_void_p)
        if isinstance(self.encoder, RecurrentEncoder):
            struct.recurrent, struct.n_recurrent = layers, len(self.encoder.layers)
        else:
            struct.layers, struct.n_layers = layers, len(self.encoder.layers)
        struct.stack, struct.decoder = ctypes.pointer(self.encoder.stack), ctypes.pointer(self.decoder.stack)
        if of.labels:
            struct.labels = as_prepacked(of.labels).struct
        if self.keys_values:
            struct.keys_values = ctypes.cast(self.keys_values, ctypes.c_void_p)
        if of.words and self.begins is not None:
            labels = of.words.labels
            struct.words = SourceWordsStruct(self.begins.data_ptr(), of.words.pooled, labels.start, labels.stop)
        return struct

    def tensors(self) -> Iterator[Tensor]:
        """All to which the structures point."""
        source, target = self.parts
        yield from (*self.encoder.pointed_to(), *self.decoder.pointed_to())
        yield from self.guide.pointed_to() if self.guide else ()
        for linear in _maps(source, target):
            yield from as_prepacked(linear).tensors.values()
        yield from target.embedding_norm.parameters() if target.embedding_norm else ()
        yield from (table for table in (source.embedding, target.embedding, self.begins) if table is not None)

    def structs(self) -> Iterator[Struct]:
        """All to which those of source and target point."""
        yield from (self.encoder.layers, self.decoder.layers, self.encoder.stack, self.decoder.stack, self.keys_values)
        if self.guide:
            yield self.guide.struct


def accepts_models(source: fused.FusedSource, target: fused.FusedModel, _: object) -> bool:
    """Whether all layers are functions in C and all tables are fp32 in one block of memory."""
    maps = all(isinstance(linear, PrepackedLinear) for linear in _maps(source, target))
    readable = all(map(_is_readable, (source.embedding, target.embedding)))
    if not maps or not readable or not accepts_guidance(target.guidance):
        return False
    encoder, decoder, width = source.encoder, target.decoder, as_prepacked(target.output).n_inputs
    encodes = isinstance(encoder, FusedEncoder) or accepts_cells(encoder, source.embedding)
    return encodes and (isinstance(decoder, FusedDecoder) or accepts_cells(decoder, target.embedding, width))


def _maps(source: fused.FusedSource, target: fused.FusedModel) -> list[object]:
    """Those of no layer."""
    return [*source.keys_values, target.output, *([source.labels] if source.labels else [])]


def _is_readable(table: Tensor | None) -> bool:
    return table is None or (table.is_cpu and table.dtype is torch.float32 and table.is_contiguous())
