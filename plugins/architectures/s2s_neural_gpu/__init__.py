"""The Extended Neural GPU (Kaiser and Bengio, 2016), and algorithmic corpora for it. No torch at import."""

from __future__ import annotations

__all__ = ["AlgorithmicConfig", "NeuralGPUConfig", "s2s_register"]

from dataclasses import dataclass
from typing import Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import SHARE, above, at_least, check_ranges


@dataclass(kw_only=True)
class NeuralGPUConfig(Choice):
    """Active memory: convolutional gated recurrent units on a mental image, which changes as a whole at every step."""

    d_model: int = 512
    """Feature maps of the image (m)."""
    width: int = 4
    """Columns of the image (w); the source is written into the first column."""
    kernel: int = 3
    """Height and width of the convolutions; odd."""
    n_layers: int = 2
    """Convolutional gated recurrent units per step, in the encoder and in the decoder (l)."""
    length_ratio: float = 1.5
    """Rows of the image per source token; outputs are read row by row, and beyond the last row from the last."""
    length_extra: int = 8
    """Additional rows of the image."""
    dropout: float = 0.1
    """Dropout on the new image of every step."""

    def __post_init__(self) -> None:
        sizes = ("d_model", "width", "kernel", "n_layers", "length_extra")
        check_ranges("arch", self, **dict.fromkeys(sizes, at_least(1)), dropout=SHARE, length_ratio=at_least(0))
        if self.kernel % 2 == 0:
            raise ConfigError(f"arch.kernel={self.kernel} must be odd, so that an image keeps its size")


@dataclass(kw_only=True)
class AlgorithmicConfig(Choice):
    """Numbers to copy, reverse or add; with `longer`, held-out numbers have more digits than any in training."""

    algorithm: Literal["copy", "reverse", "add"] = "copy"
    """copy: 5 0 2 unchanged. reverse: 2 0 5. add: 5 0 2 + 3 1, digits least significant first, gives 8 1 2."""
    digits: int = 10
    """Maximum number of digits in training; all lengths are equally frequent."""
    longer: float = 1.0
    """Held-out numbers have `digits` + 1 to `digits` * (1 + longer) digits; 0: as in training."""
    radix: int = 10
    """Number of different digits."""
    pairs: int = 20_000
    """Training pairs."""
    held_out: int = 200
    """Pairs of the development set, and of the test set."""
    seed: int = 1
    """Seed of the numbers."""

    def __post_init__(self) -> None:
        sizes = ("digits", "pairs", "held_out")
        check_ranges("", self, **dict.fromkeys(sizes, at_least(1)), longer=at_least(0), radix=above(1))
        if self.radix > 10:
            raise ConfigError(f"radix={self.radix}: digits are written as 0 to 9, so give at most 10")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The architecture and the corpus, under their names."""
    registry.arch("neural_gpu", NeuralGPUConfig, "s2s_neural_gpu.model:NeuralGPU")
    registry.corpus("algorithmic", AlgorithmicConfig, "s2s_neural_gpu.algorithms:Algorithmic")
