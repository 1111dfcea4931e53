"""Convolutional encoder-decoders, ConvS2S and ByteNet, as a plugin; docs/families/convolutional.md."""

from __future__ import annotations

__all__ = ["ByteNetConfig", "ConvS2SConfig", "s2s_register"]

from dataclasses import dataclass, field

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import SHARE, at_least, check_ranges


def _published() -> list[list[int]]:
    """Layers of the paper's English-German model (section 4.3)."""
    return [[9, 512, 3], [4, 1024, 3], [2, 2048, 1]]


@dataclass(kw_only=True)
class ConvS2SConfig(Choice):
    """Gated convolutions with attention in every decoder layer (Gehring et al., 2017); sections refer to that paper."""

    d_model: int = 768
    """Width of embeddings, of attention and of the input of the softmax."""
    encoder_layers: list[list[int]] = field(default_factory=_published)
    """Layers of the encoder, from the bottom: [[layers, width, kernel], …]; kernels are odd."""
    decoder_layers: list[list[int]] = field(default_factory=_published)
    """Layers of the decoder, in the same form."""
    max_positions: int = 1024
    """Longest sentence, eos included; each position has a learned vector."""
    dropout: float = 0.2
    """Dropout on embeddings, on each convolution's input, and on the input of the softmax (section 4.2)."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, d_model=at_least(1), max_positions=at_least(1), dropout=SHARE)
        for side in ("encoder", "decoder"):
            layers = getattr(self, f"{side}_layers")
            if not layers or any(len(part) != 3 or min(part) < 1 for part in layers):
                raise ConfigError(
                    f"arch.{side}_layers={layers} must be [[layers, width, kernel], …], such as [[4,256,3]]"
                )
        even = [kernel for _, _, kernel in self.encoder_layers if kernel % 2 == 0]
        if even:
            raise ConfigError(f"arch.encoder_layers: a kernel of {even[0]} has no middle; give an odd one")


@dataclass(kw_only=True)
class ByteNetConfig(Choice):
    """Dilated convolutions, linear time in the length (Kalchbrenner et al., 2016); sections refer to that paper."""

    d_model: int = 1600
    """Width of embeddings and between blocks: 2 d in the paper. Blocks are half as wide inside."""
    n_sets: int = 6
    """Sets of blocks in the encoder and in the decoder; a set has one block per dilation."""
    dilations: list[int] = field(default_factory=lambda: [1, 2, 4, 8, 16])
    """Distances between the inputs of a convolution, for each block of a set."""
    kernel: int = 3
    """Number of inputs of a convolution; odd."""
    unfold_a: float = 1.2
    """The decoder reads the columns of the source's representation, of which there are unfold_a * |x| + unfold_b."""
    unfold_b: int = 0
    """See unfold_a (section 3.2)."""
    dropout: float = 0.0
    """Dropout on each block's output before the residual sum; not in the paper."""
    norm_eps: float = 1e-6
    """Added to the variance in layer normalisation."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, d_model=at_least(2), n_sets=at_least(1), kernel=at_least(1), dropout=SHARE)
        check_ranges("arch", self, unfold_a=at_least(0), unfold_b=at_least(0), norm_eps=at_least(0))
        if self.d_model % 2 or self.kernel % 2 == 0:
            raise ConfigError(f"arch.d_model={self.d_model} must be even and arch.kernel={self.kernel} odd")
        if not self.dilations or min(self.dilations) < 1:
            raise ConfigError(f"arch.dilations={self.dilations} must be distances from 1 on, such as [1,2,4]")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.arch("convs2s", ConvS2SConfig, "s2s_convolutional.convs2s:ConvS2S")
    registry.arch("bytenet", ByteNetConfig, "s2s_convolutional.bytenet:ByteNet")
