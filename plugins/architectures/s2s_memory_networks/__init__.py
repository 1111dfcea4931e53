"""End-to-end memory networks (Sukhbaatar et al., 2015), as a plugin; docs/families/memory.md."""

from __future__ import annotations

__all__ = ["MemoryNetworkConfig", "s2s_register"]

from dataclasses import dataclass
from typing import Literal

from s2s import Choice, Registry, hookimpl
from s2s.config import SHARE, above, at_least, check_ranges


@dataclass(kw_only=True)
class MemoryNetworkConfig(Choice):
    """Hops of attention over the units of a source, such as the sentences of a story; sections refer to the paper."""

    d_model: int = 20
    """Width of memories and of the query."""
    n_hops: int = 3
    """How often the memories are read (K)."""
    tying: Literal["adjacent", "layerwise"] = "adjacent"
    """adjacent: a hop's output embedding is the next hop's input embedding, the first also embeds the question, and the
    last is the softmax. layerwise: all hops share both, and the query goes through a matrix between hops."""
    encoding: Literal["position", "bag"] = "position"
    """A unit's vector: the sum of its word vectors, each weighted by its position (section 4.1), or unweighted."""
    temporal: bool = True
    """Whether a vector for its distance from the question is added to a memory."""
    capacity: int = 50
    """Maximum number of units remembered: the last ones before the question."""
    noise: float = 0.1
    """Probability, in training, of an empty memory after each one, so that distances vary (section 4.1)."""
    match: Literal["softmax", "linear"] = "softmax"
    """How memories are weighted. linear: without the softmax, for a first stage (linear start), whose run is then the
    train.init_from of a second stage with softmax."""
    init_std: float = 0.1
    """Standard deviation of all initial weights."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, d_model=at_least(1), n_hops=at_least(1), capacity=at_least(1))
        check_ranges("arch", self, noise=SHARE, init_std=above(0))


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.arch("memory_network", MemoryNetworkConfig, "s2s_memory_networks.model:MemoryNetwork")
