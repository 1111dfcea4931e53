"""The compiled functions, loaded once per process, and how they are called. No torch at import."""

from __future__ import annotations

__all__ = ["NativeLibrary", "call", "constant", "native_library"]

import ctypes
import functools
import os
import sys
from ctypes import c_float, c_int64, c_void_p
from typing import Any, NamedTuple

from s2s import ConfigError
from s2s_cpu.compiled import compiled_library
from s2s_cpu.structs import STRUCTS

SENTENCE_TYPES = [c_void_p, *[c_int64] * 2]
"""Rows as hypotheses of sentences: their scores, how many a sentence has, how many of its best totals are wanted"""
NO_INSTRUCTIONS = 2
"""An error code, as in decoder.h"""
DROPOUT_TYPES = [c_void_p, c_int64, c_float]
"""Which values dropout keeps: random numbers, the smallest that keeps a value, the factor of kept values"""
SIGNATURES = {
    "s2s_top_k": [c_void_p, *[c_int64] * 3, *[c_void_p] * 2, c_int64, *SENTENCE_TYPES, *[c_void_p] * 3],
    "s2s_top_k_of_lists": [c_void_p, *[c_int64] * 3, *[c_void_p] * 3, c_int64, *SENTENCE_TYPES, *[c_void_p] * 3],
    "s2s_sample": [
        c_void_p,
        *[c_int64] * 2,
        *[c_void_p] * 2,
        *[c_int64] * 2,
        *[c_void_p] * 2,
        c_int64,
        *[c_void_p] * 2,
    ],
    "s2s_tree_attention": [*[c_void_p] * 3, *[c_int64] * 3, *[c_void_p] * 3, *[c_int64] * 7, c_float, *[c_void_p] * 2],
    "s2s_source_attention": [*[c_void_p] * 4, *[c_int64] * 6, c_float, c_void_p],
    "s2s_padded_attention": [*[c_void_p] * 7, *[c_int64] * 6, c_float, *[c_void_p] * 2],
    "s2s_add_norm": [*[c_void_p] * 2, *[c_int64] * 2, *[c_void_p] * 2],
    "s2s_quantize_rows": [c_void_p, *[c_int64] * 4, *[c_void_p] * 2],
    "s2s_dequantize_rows": [c_void_p, *[c_int64] * 2, *[c_void_p] * 2],
    "s2s_linear": [c_void_p, c_void_p, c_int64, c_void_p],
    "s2s_select_outputs": [*[c_void_p] * 2, c_int64, c_void_p],
    "s2s_decoder_step": [c_void_p, c_int64, c_void_p, c_void_p],
    "s2s_encoder": [c_void_p, c_int64, c_void_p, c_void_p],
    "s2s_merge_candidates": [*[c_void_p] * 4, *[c_int64] * 4, *[c_void_p] * 5],
    "s2s_merge_finished": [*[c_void_p] * 2, *[c_int64] * 5, *[c_void_p] * 3],
    "s2s_unfinished_candidates": [c_void_p, *[c_int64] * 4, c_void_p],
    "s2s_search_finished": [*[c_void_p] * 5, *[c_int64] * 4, c_void_p],
    "s2s_beam_search_steps": [*[c_void_p] * 3, c_int64],
    "s2s_stream_new": [c_void_p] * 4,
    "s2s_stream_admit": [c_void_p] * 2,
    "s2s_stream_run": [c_void_p, c_int64, c_void_p],
    "s2s_stream_cancel": [*[c_void_p] * 2, c_int64],
    "s2s_stream_free": [c_void_p],
    "s2s_extend_paths": [*[c_void_p] * 3, *[c_int64] * 3],
    "s2s_reorder_paths": [*[c_void_p] * 2, *[c_int64] * 4, c_void_p],
    "s2s_label_smoothing": [c_void_p, *[c_int64] * 3, *[c_void_p] * 2, *[c_float] * 2, *[c_void_p] * 3],
    "s2s_consistency": [c_void_p, *[c_int64] * 3, *[c_void_p] * 2, *[c_float] * 2, *[c_void_p] * 5],
    "s2s_short_attention": [c_void_p, *[c_int64] * 2],
    "s2s_short_attention_backward": [c_void_p, *[c_int64] * 2],
    "s2s_tiled_attention": [c_void_p, *[c_int64] * 2],
    "s2s_tiled_attention_backward": [c_void_p, *[c_int64] * 2],
    "s2s_pack_kept": [c_void_p, *[c_int64] * 5, c_void_p],
    "s2s_random_numbers": [*[c_int64] * 2, c_void_p],
    "s2s_dropout": [*[c_void_p] * 2, *[c_int64] * 2, *DROPOUT_TYPES, c_void_p, c_int64],
    "s2s_dropout_norm": [*[c_void_p] * 2, *[c_int64] * 3, *DROPOUT_TYPES, *[c_void_p] * 2, c_float, *[c_void_p] * 3],
    "s2s_dropout_norm_backward": [c_void_p, *[c_int64] * 3, *DROPOUT_TYPES, *[c_void_p] * 7],
    "s2s_lstm": [*[c_void_p] * 2, *[c_int64] * 5, *[c_void_p] * 5],
    "s2s_lstm_backward": [*[c_void_p] * 3, *[c_int64] * 5, *[c_void_p] * 6],
    "s2s_bf16_linear": [c_void_p, *[c_int64] * 3, c_void_p, c_int64, c_void_p, c_int64, c_void_p],
    "s2s_bf16_linear_dx": [c_void_p, *[c_int64] * 2, c_void_p, c_int64, *[c_void_p] * 2, c_int64],
    "s2s_bf16_linear_dw": [c_void_p, *[c_int64] * 3, c_void_p, *[c_int64] * 2, *[c_void_p] * 2],
    "s2s_output_loss": [c_void_p, *[c_int64] * 3, c_void_p, c_int64, *[c_void_p] * 2, *[c_float] * 2, *[c_void_p] * 4],
    "s2s_has_bf16_linear": [],
    "s2s_huge_pages": [c_void_p, c_int64],
    "s2s_struct_size": [c_int64],
    "s2s_panel_width": [],
    "s2s_has_int8": [],
    "s2s_may_use_tiles": [],
    "s2s_rounds_rows_to_bf16": [],
}
"""Argument types; all return an integer: 0 or an error code, or the requested constant"""


class NativeLibrary(NamedTuple):
    """The compiled functions, or None; and which kernels are used, and why."""

    functions: ctypes.CDLL | None
    reason: str


def call(name: str, *arguments: Any) -> None:
    """Call a function; tensors are passed as the addresses of their data. Raises MemoryError if memory runs out."""
    pointers = [a.data_ptr() if hasattr(a, "data_ptr") else a for a in arguments]
    failure = getattr(native_library().functions, name)(*pointers)
    if failure == NO_INSTRUCTIONS:
        raise RuntimeError(f"{name}: this processor has no instructions for it")
    if failure:
        raise MemoryError(f"{name}: not enough memory")


def constant(name: str) -> int:
    """A constant that was compiled in."""
    value: int = getattr(native_library().functions, name)()
    return value


@functools.cache
def native_library() -> NativeLibrary:
    """The library, found or compiled and then loaded, as S2S_KERNELS says."""
    requested = os.environ.get("S2S_KERNELS", "auto")
    if requested not in ("auto", "torch", "native", "compile"):
        raise ConfigError(f"S2S_KERNELS={requested}: give auto, torch, native or compile")
    if requested == "torch":
        return NativeLibrary(None, "torch kernels (S2S_KERNELS=torch)")
    try:
        return NativeLibrary(_load(shipped=requested != "compile"), "native kernels")
    except OSError as error:
        if requested in ("native", "compile"):
            raise ConfigError(f"S2S_KERNELS={requested}: {error}") from error
        return NativeLibrary(None, f"torch kernels ({error})")


def _load(*, shipped: bool = True) -> ctypes.CDLL:
    """Load the functions; a library that does not match this module is compiled again, once."""
    try:
        return _open(recompile=False, shipped=shipped)
    except AttributeError:
        pass
    try:
        return _open(recompile=True, shipped=False)
    except AttributeError as error:
        raise OSError(f"the compiled library does not fit: {error}") from error


def _open(*, recompile: bool, shipped: bool) -> ctypes.CDLL:
    """Raises AttributeError if a function is missing or a structure's size differs from that in `STRUCTS`."""
    with compiled_library(recompile=recompile, shipped=shipped) as (path, warning):
        functions = ctypes.CDLL(str(path))
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    for name, types in SIGNATURES.items():
        function = getattr(functions, name)
        function.argtypes, function.restype = types, c_int64
    for index, struct in enumerate(STRUCTS):
        if (size := functions.s2s_struct_size(index)) != ctypes.sizeof(struct):
            raise AttributeError(f"{struct.__name__} has {ctypes.sizeof(struct)} bytes here and {size} there")
    return functions
