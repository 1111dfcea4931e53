"""A third party's plugin that registers a device: that of `pretend_device`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.attention.varlen

import s2s
from harness.pretend_device import NAME, Graph, State, register
from s2s.backend import Device, available_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torch import Tensor


@dataclass(kw_only=True)
class PretendConfig(s2s.Choice):
    """A device in Python."""


class Pretend(Device):
    """Its memory and random numbers are the host's."""

    has_fused_optimizers = True

    def __init__(self, config: PretendConfig, device: torch.device) -> None:
        super().__init__(config, device)
        self.wide_dtype = torch.float64 if State.float64 else torch.float32

    @property
    def supports_graphs(self) -> bool:  # type: ignore[override]  # a constant of other devices
        """As the case asks."""
        return State.graphs

    def has_varlen_attention(self, dtype: torch.dtype) -> bool:
        """With graphs, since only batches of one shape are captured; attention is then that of the CPU."""
        del dtype
        return State.graphs

    def hardware(self) -> str:
        return "Python"

    def synchronize(self) -> None:
        """Operators return when they are done."""

    def free_memory(self) -> int:
        return available_memory().n_bytes

    def peak_memory(self) -> int:
        return 0

    def empty_cache(self) -> None:
        """Nothing is held unused."""

    def can_measure_peak(self) -> bool:
        return False

    def capture(self, function: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """After a call that is not recorded, as on CUDA."""
        function()
        graph = Graph()
        with graph.recording():
            result = function()
        return graph.replay, result

    def fork_rng(self) -> AbstractContextManager[None]:
        return torch.random.fork_rng([])


def varlen_attn(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *_longest: int, window_size: tuple[int, int]
) -> Tensor:
    """torch's attention of packed sentences: q [N, h, d], k, v [S, h, d], where each begins [M + 1] -> [N, h, d]"""

    def places(begins: Tensor, n: int) -> tuple[Tensor, Tensor]:
        token = torch.arange(n, device=begins.device)
        sentence = (token[:, None] >= begins[1:]).sum(1)
        return sentence, token - begins.index_select(0, sentence)

    (of_q, at_q), (of_k, at_k) = places(cu_q, len(q)), places(cu_k, len(k))
    hidden = of_q[:, None] != of_k
    if window_size[1] == 0:
        hidden = hidden | (at_k > at_q[:, None])
    scores = torch.einsum("nhd,shd->hns", q, k) * q.size(-1) ** -0.5
    return torch.einsum("hns,shd->nhd", scores.masked_fill(hidden, -3e4).softmax(-1), v)


@s2s.hookimpl
def s2s_register(registry: s2s.Registry) -> None:
    register()
    torch.nn.attention.varlen.varlen_attn = varlen_attn  # torch's own has kernels for CUDA alone
    registry.add("device", NAME, PretendConfig, Pretend)
