"""How operations are computed: C kernels, CUDA graphs, prepacked linear maps, and the selection among them."""

from __future__ import annotations

__all__ = ["DecoderSublayers", "FusedDecoder", "PrepackedLinear", "add_norm", "bucket_size", "linear_function"]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.backend.cuda_graph import bucket_size
    from s2s.backend.kernels import add_norm
    from s2s.backend.kernels.decoder import DecoderSublayers, FusedDecoder
    from s2s.backend.kernels.linear import PrepackedLinear
    from s2s.backend.linear import linear_function

__getattr__ = lazy_names(__name__, "linear", "cuda_graph", "kernels", "kernels.decoder", "kernels.linear")
