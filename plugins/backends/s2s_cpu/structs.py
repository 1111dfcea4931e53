"""The structures of decoder.h, beam_search.h, stream.h and short_attention.h, field by field. No torch at import.

Their sizes are compared with the compiled ones when the library is loaded.
"""

from __future__ import annotations

__all__ = [
    "ACTIVATIONS",
    "EFFECTS",
    "SEARCH_WRITTEN",
    "STRUCTS",
    "AdmissionStruct",
    "AutomatonStruct",
    "CellStruct",
    "EncoderLayerStruct",
    "EncodingStruct",
    "FoundStruct",
    "GuidanceStruct",
    "HeadRowsStruct",
    "LayerStruct",
    "LinearStruct",
    "ModelStruct",
    "NormStruct",
    "RecurrentLayerStruct",
    "RepeatsStruct",
    "SamplingRuleStruct",
    "SearchStruct",
    "ShortlistStruct",
    "SourceModelStruct",
    "SourceWordsStruct",
    "StackStruct",
    "StepStruct",
    "TokenListsStruct",
    "TrainingAttentionStruct",
]

import ctypes
from ctypes import c_double, c_float, c_int64, c_void_p

LINEARS = ("qkv", "out", "forget", "new", "query", "source_out", "inner", "gate", "outer")
ENCODER_LINEARS = ("qkv", "out", "inner", "gate", "outer")
NORMS = ("attention_norm", "cross_attention_norm", "feed_forward_norm")
ENCODER_NORMS = ("attention_norm", "feed_forward_norm")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
"""As decoder.h numbers them"""
EFFECTS = ("nothing", "takes", "opens", "wraps", "closes")
"""As guide.c numbers them"""
SEARCH_SIZES = (
    *("beam", "E", "eos", "n", "n_finishable", "stop_rank", "first_k", "at_present", "normalize"),
    *("n_banned", "first_node", "admission_threshold", "min_len"),
)
SEARCH_WRITTEN = (
    *("sentence", "n_source", "limit", "token", "node", "score", "length"),
    *("finished_score", "finished_node", "finished_log_prob", "parent", "path", "n_cached", "n_nodes"),
    *("new_token", "new_log_prob", "new_parent"),
)
"""What steps change"""


class LinearStruct(ctypes.Structure):
    """A prepacked linear map."""

    _fields_ = (
        *((name, c_void_p) for name in ("weight", "bias", "scale", "zero")),
        ("n_inputs", c_int64),
        ("n_outputs", c_int64),
        ("bits", c_int64),
        ("multiplier", c_double),
    )


class NormStruct(ctypes.Structure):
    """A layer normalisation, or without a bias an RMS norm."""

    _fields_ = (("weight", c_void_p), ("bias", c_void_p), ("eps", c_double))


class CellStruct(ctypes.Structure):
    """An LSTM."""

    _fields_ = (("input", LinearStruct), ("hidden", LinearStruct))


class RecurrentLayerStruct(ctypes.Structure):
    """A recurrent layer of an encoder."""

    _fields_ = (("forward", CellStruct), ("backward", CellStruct))


class LayerStruct(ctypes.Structure):
    """A decoder layer."""

    _fields_ = (
        ("cell", CellStruct),
        *((name, LinearStruct) for name in LINEARS),
        *((name, NormStruct) for name in NORMS),
        *((name, c_void_p) for name in ("nodes", "keys", "values")),
        *((name, c_int64) for name in ("node_width", "number")),
    )


class StackStruct(ctypes.Structure):
    """What all layers share."""

    _fields_ = (
        *((name, c_int64) for name in ("h", "d_k", "d_v", "D", "pre_norm", "activation")),
        ("scale", c_double),
        ("relative", c_void_p),
        ("n_relative", c_int64),
        ("norm", NormStruct),
    )


class StepStruct(ctypes.Structure):
    """The arguments of a decoding step besides its input."""

    _fields_ = (
        *((name, c_int64) for name in ("B", "K", "N", "L", "S")),
        *((name, c_void_p) for name in ("path", "length", "seen")),
        ("stack", ctypes.POINTER(StackStruct)),
        ("sources", c_void_p),
        ("n_sources", c_int64),
        ("guide", c_void_p),
        ("guide_vectors", c_void_p),
    )


class GuidanceStruct(ctypes.Structure):
    """A guide, and what is read at its places."""

    _fields_ = (
        *((name, c_void_p) for name in ("effect", "label")),
        *((name, c_int64) for name in ("n_labels", "depth", "n_places")),
        *((name, c_void_p) for name in ("nothing", "kinds")),
        *((name, LinearStruct) for name in ("maps", "out")),
    )


class ModelStruct(ctypes.Structure):
    """A decoder from tokens to logits."""

    _fields_ = (
        ("layers", c_void_p),
        ("n_layers", c_int64),
        ("D", c_int64),
        ("output", LinearStruct),
        ("embedding", c_void_p),
        ("scale", c_double),
        ("output_scale", c_double),
        ("zero_start", c_int64),
        ("positions", c_void_p),
        ("embedding_norm", NormStruct),
        ("of_columns", LinearStruct),
        ("columns", c_void_p),
        ("listed", c_void_p),
        ("guidance", c_void_p),
    )


class SamplingRuleStruct(ctypes.Structure):
    """A `SamplingRule`; a temperature of 0: tokens are not drawn."""

    _fields_ = (("top_k", c_int64), ("top_p", c_double), ("temperature", c_double))


class RepeatsStruct(ctypes.Structure):
    """How the tokens that an output already has change the choice of the next one."""

    _fields_ = (
        *((name, c_int64) for name in ("n_gram", "of_log_probs")),
        ("penalty", c_double),
        ("always", c_void_p),
        ("n_always", c_int64),
    )


class SearchStruct(ctypes.Structure):
    """The state of a beam search between two steps."""

    _fields_ = (
        *((name, c_int64) for name in SEARCH_SIZES),
        *((name, c_void_p) for name in ("banned", "penalty", *SEARCH_WRITTEN)),
        *((name, c_int64) for name in ("n_steps", "n_new")),
        *((name, c_void_p) for name in ("allowed", "automaton", "logit_scale", "logit_bias", "shortlist")),
        ("sampling", SamplingRuleStruct),
        ("repeats", RepeatsStruct),
    )


class TokenListsStruct(ctypes.Structure):
    """Lists of tokens."""

    _fields_ = (("begin", c_void_p), ("token", c_void_p))


class ShortlistStruct(ctypes.Structure):
    """A `Shortlist` of s2s.decoding."""

    _fields_ = (
        *((name, c_int64) for name in ("n_always", "n_source", "multiple")),
        ("always", c_void_p),
        ("of_source", TokenListsStruct),
    )


class AutomatonStruct(ctypes.Structure):
    """A `StackAutomaton` with the states of hypotheses."""

    _fields_ = (
        ("G", c_int64),
        ("width", c_int64),
        *((name, c_void_p) for name in ("keep", "add", "bounds", "label", "allowed")),
        ("lists", TokenListsStruct),
        ("state", c_void_p),
    )


class EncoderLayerStruct(ctypes.Structure):
    """An encoder layer."""

    _fields_ = (
        *((name, LinearStruct) for name in ENCODER_LINEARS),
        *((name, NormStruct) for name in ENCODER_NORMS),
    )


class EncodingStruct(ctypes.Structure):
    """The arguments of an encoder besides its input."""

    _fields_ = (
        *((name, c_int64) for name in ("B", "S")),
        ("pad", c_void_p),
        ("stack", ctypes.POINTER(StackStruct)),
    )


class SourceWordsStruct(ctypes.Structure):
    """Which tokens of a source make up its words."""

    _fields_ = (("begins", c_void_p), *((name, c_int64) for name in ("pooled", "first_label", "end_label")))


class SourceModelStruct(ctypes.Structure):
    """From a source's tokens to what a decoder's layers and its guide read."""

    _fields_ = (
        ("layers", c_void_p),
        ("n_layers", c_int64),
        ("recurrent", c_void_p),
        *((name, c_int64) for name in ("n_recurrent", "D", "M")),
        ("words", SourceWordsStruct),
        *((name, ctypes.POINTER(StackStruct)) for name in ("stack", "decoder")),
        ("embedding", c_void_p),
        ("scale", c_double),
        ("positions", c_void_p),
        ("labels", LinearStruct),
        ("keys_values", c_void_p),
    )


class AdmissionStruct(ctypes.Structure):
    """Sentences that are admitted to a stream."""

    _fields_ = (
        ("n", c_int64),
        *(
            (name, c_void_p)
            for name in ("token", "n_source", "limit", "index", "n_best", "n_start", "start", "state", "key")
        ),
    )


class FoundStruct(ctypes.Structure):
    """What steps of a stream found."""

    _fields_ = (
        ("n_numbers", c_int64),
        ("numbers", ctypes.POINTER(c_int64)),
        ("values", ctypes.POINTER(c_float)),
        *((name, c_int64) for name in ("n_values", "n_sentences", "n_source", "longest")),
    )


class HeadRowsStruct(ctypes.Structure):
    """A tensor [B, h, T, d]."""

    _fields_ = (("data", c_void_p), *((name, c_int64) for name in ("sentence", "head", "row")))


class TrainingAttentionStruct(ctypes.Structure):
    """Attention in training: its inputs and its results."""

    _fields_ = (
        *((name, HeadRowsStruct) for name in ("q", "k", "v", "out", "d_out", "grad_q", "grad_k", "grad_v")),
        *((name, c_void_p) for name in ("bias", "random", "weights", "kept", "statistics")),
        *((name, c_int64) for name in ("B", "h", "T", "S", "d_k", "d_v", "bits", "causal", "threshold")),
        *((name, c_double) for name in ("scale", "kept_factor")),
    )


STRUCTS = (
    *(LinearStruct, NormStruct, LayerStruct, StepStruct),
    *(ModelStruct, SearchStruct, EncoderLayerStruct, EncodingStruct),
    *(TokenListsStruct, AutomatonStruct, HeadRowsStruct, TrainingAttentionStruct),
    *(StackStruct, SourceModelStruct, AdmissionStruct, FoundStruct, ShortlistStruct, SamplingRuleStruct),
    *(RecurrentLayerStruct, GuidanceStruct),
)
"""In the order in which `s2s_struct_size` numbers them"""
