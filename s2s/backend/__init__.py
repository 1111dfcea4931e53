"""How operations are computed: operators that plugins implement, CUDA graphs, prepacked linear maps, devices.

`operators`, `linear` and `fused` are modules: of each, the names in its `__all__` are public.
"""

from __future__ import annotations

__all__ = [
    "Capture",
    "Device",
    "GrowingState",
    "Operator",
    "as_in_training",
    "available_memory",
    "bucket_size",
    "device_of",
    "fused",
    "graph_decoding",
    "linear",
    "matmul_rate",
    "operators",
    "pad_to_beam",
    "release_freed_memory",
    "usable_cores",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names

if TYPE_CHECKING:
    from s2s.backend import fused, linear, operators
    from s2s.backend.cores import usable_cores
    from s2s.backend.cuda_graph import Capture, graph_decoding
    from s2s.backend.device import Device
    from s2s.backend.device_types import device_of
    from s2s.backend.growing_state import GrowingState, bucket_size, pad_to_beam
    from s2s.backend.host import release_freed_memory
    from s2s.backend.memory import available_memory
    from s2s.backend.operators.operator import Operator
    from s2s.backend.product_rate import matmul_rate
    from s2s.backend.selection import as_in_training

__getattr__ = lazy_names(
    __name__,
    "operators",
    "operators.operator",
    "linear",
    "fused",
    "cores",
    "cuda_graph",
    "device",
    "device_types",
    "host",
    "product_rate",
    "selection",
    "memory",
    "growing_state",
)
