"""Operators of `s2s.backend` on CUDA devices: decoding steps captured in CUDA graphs."""

from __future__ import annotations

__all__ = ["s2s_operators"]

from s2s import hookimpl


@hookimpl
def s2s_operators() -> None:
    """Implement the capture of decoding steps; no command captures any on a CPU."""
    from s2s.backend import graph_decoding
    from s2s_cuda import decoding_graph

    graph_decoding.implement(decoding_graph.graph_decoding, lambda *_: True)
