"""The beam search of a sentence as one call: with a small model, calling encoder and steps takes longer than they do.

Shapes: S source length, D = d_model.
"""

from __future__ import annotations

__all__ = ["SentenceSearch", "accepts_models"]

import ctypes
from ctypes import c_float, c_int64
from typing import TYPE_CHECKING, Any

import torch

from s2s.decoding import ActiveSentence, SearchResult
from s2s_cpu.beam_search_steps import model_struct, search_settings, search_struct
from s2s_cpu.fused_layers import FusedDecoder, FusedEncoder
from s2s_cpu.library import call
from s2s_cpu.prepacked import PrepackedLinear
from s2s_cpu.structs import LinearStruct, SentenceStruct, SourceModelStruct

if TYPE_CHECKING:
    from torch import Tensor

    from s2s.backend import fused
    from s2s.decoding import BeamSearch, SourceSentence

MAX_NODE_BYTES = 2**25
"""Of the keys and values of all tokens of a search; with more, dead ones are freed between steps"""


class SentenceSearch:
    """That of a model from source tokens to logits, whose structures are made once; see `s2s.backend.fused`."""

    def __init__(self, source: fused.FusedSource, target: fused.FusedModel) -> None:
        self.models = source, target  # own the memory that the structures point to
        self.n_tokens = source.n_tokens
        encoder, decoder = source.encoder, target.decoder
        assert isinstance(encoder, FusedEncoder)
        assert isinstance(decoder, FusedDecoder)
        maps = [linear for linear in source.keys_values if isinstance(linear, PrepackedLinear)]
        self.node_bytes = 4 * sum(linear.n_outputs for linear in maps)
        self.keys_values = (LinearStruct * len(maps))(*(linear.struct for linear in maps))
        table = None if source.embedding is None else source.embedding.data_ptr()
        self.source = SourceModelStruct(
            ctypes.cast(encoder.layers, ctypes.c_void_p),
            len(encoder.layers),
            *(ctypes.pointer(stack) for stack in (encoder.stack, decoder.stack)),
            table,
            source.scale,
            ctypes.cast(self.keys_values, ctypes.c_void_p),
        )
        self.target = model_struct(target, decoder.layers)

    def __call__(
        self, search: BeamSearch, run: Any, sentence: SourceSentence, limit: int, positions: fused.SentencePositions
    ) -> SearchResult | None:
        """None if the buffers would be large, a token is in no table, or there are too few tokens to fill the beam."""
        request, ids, beam = run.request, sentence.ids, search.config.beam
        is_large = beam * (limit + 1) * self.node_bytes > MAX_NODE_BYTES
        if is_large or beam > request.vocab.tgt or min(ids) < 0 or max(ids) >= self.n_tokens:
            return None
        n, settings = request.nbest, search_settings(search, run)
        tokens, length, output = (c_int64 * len(ids))(*ids), (c_int64 * n)(), (c_int64 * (n * limit))()
        log_probs, scores = (c_float * (n * (limit + 1)))(), (c_float * n)()
        arrays = (ctypes.addressof(array) for array in (length, output, log_probs, scores))
        tables = (None if table is None else table.data_ptr() for table in positions)
        start = request.starting_tokens(sentence)[0]
        own = SentenceStruct(ctypes.addressof(tokens), len(ids), limit, n, start, *tables, *arrays)
        structs = (self.source, self.target, search_struct(settings, beam, beam), own)
        call("s2s_search_sentence", *map(ctypes.byref, structs))
        record, hypotheses = ActiveSentence(sentence.index, len(ids), limit=limit), []
        for i, (n_tokens, score) in enumerate(zip(length, scores, strict=True)):
            if n_tokens >= 0:
                first, own_tokens = i * (limit + 1), output[i * limit : i * limit + n_tokens]
                *before, last = log_probs[first : first + n_tokens + 1]
                hypotheses.append(record.hypothesis(own_tokens, score, before, last))
        return SearchResult(sentence.index, hypotheses)


def accepts_models(source: fused.FusedSource, target: fused.FusedModel) -> bool:
    """Whether all layers are functions in C and all tables are fp32 in one block of memory."""
    layers = isinstance(source.encoder, FusedEncoder) and isinstance(target.decoder, FusedDecoder)
    maps = all(isinstance(linear, PrepackedLinear) for linear in (*source.keys_values, target.output))
    return layers and maps and all(map(_is_readable, (source.embedding, target.embedding)))


def _is_readable(table: Tensor | None) -> bool:
    return table is None or (table.is_cpu and table.dtype is torch.float32 and table.is_contiguous())
