"""What this distribution brings: `arch=example_rnn` and `task=sorting`. No torch is imported until one is built."""

from __future__ import annotations

from dataclasses import dataclass

import s2s


@dataclass(kw_only=True)
class RNNConfig(s2s.Choice):
    """A recurrent encoder-decoder with attention, after Bahdanau et al. (2015)."""

    d_model: int = 128
    """Width of embeddings and states."""
    dropout: float = 0.1
    """Dropout on embeddings and states."""


@dataclass(kw_only=True)
class SortingConfig(s2s.Choice):
    """Write the digits of the source in ascending order."""

    pairs: int = 5000
    """Training pairs."""
    longest: int = 10
    """Most digits of a source."""
    seed: int = 1
    """Seed of the pairs."""


@s2s.hookimpl
def s2s_register(registry: s2s.Registry) -> None:
    registry.arch("example_rnn", RNNConfig, "s2s_example.rnn:RNN")
    registry.preset("arch", "example_rnn_tiny", {"name": "example_rnn", "d_model": 32})
    registry.task("sorting", SortingConfig, "s2s_example.sorting:Sorting")
    registry.preset("task", "sorting", {"name": "sorting", "defaults": {"arch": "example_rnn"}})
