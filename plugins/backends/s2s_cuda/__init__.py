"""Operators of `s2s.backend` on CUDA devices: decoding steps captured in CUDA graphs."""

from __future__ import annotations

__all__ = ["s2s_operators"]

from s2s import hookimpl


@hookimpl
def s2s_operators() -> None:
    """Implement the capture of decoding steps; no command captures any on a CPU."""
    import s2s.backend as backend
    from s2s_cuda.decoding_graph import graph_decoding

    backend.graph_decoding.implement(graph_decoding, lambda *_: True)
