"""MarianMTModel of Hugging Face, and PegasusForConditionalGeneration, which is the same with pre-norm: the
Transformer's options and tensors under the names that they have there.

Both concatenate sines and cosines, whereas the paper interleaves them. The dimensions of a hidden state have no order,
so permuting every weight that reads or writes it gives the same model, bit for bit.
"""

from __future__ import annotations

__all__ = ["Marian"]

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from s2s import ConfigError
from s2s.foreign import Layout, OptionNames
from s2s_transformer import TransformerConfig
from s2s_transformer.foreign import PAPER, SIDES, encodings, sharing
from s2s_transformer.huggingface import OWN, POSITIONS, READ, SHARED, WRITTEN, BartFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from s2s import Choice


class Marian(BartFamily):
    """With the paper's sinusoids; source, target and softmax are one matrix, two or three, of one vocabulary or two."""

    title = "MarianMTModel"
    model_types = ("marian", "pegasus")
    options = (
        OptionNames("norm", ["model_type"], {"post": "marian", "pre": "pegasus"}, default="marian"),
        *(option for option in BartFamily.options if option.native != "share_embeddings"),
    )
    implied: ClassVar = PAPER | {"positions": ("sinusoid",)}

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class; raises ConfigError for Pegasus with a matrix of its own for the target."""
        assert isinstance(config, TransformerConfig)
        written, one = super().write_options(config), config.share_embeddings in ("shared", "inputs")
        if config.norm == "pre" and not one:
            raise ConfigError(
                f"arch.share_embeddings={config.share_embeddings}: with arch.norm=pre, {self.title} is Pegasus, which "
                "has only shared or inputs"
            )
        tied = config.share_embeddings in ("shared", "target")
        return {**written, "share_encoder_decoder_embeddings": one, "tie_word_embeddings": tied}

    def shared(self, tensors: Mapping[str, Tensor]) -> str:
        """`arch.share_embeddings` of these matrices."""
        return sharing(tensors, SHARED, OWN)

    def layouts(self, config: TransformerConfig) -> dict[int, Sequence[Layout]]:
        """Of the dimension of a weight that is the hidden state's: sines, then cosines"""
        order = sines_first(config.d_model)
        return {dim: [Layout.permuted(order, dim)] for dim in (READ, WRITTEN)}

    def computed(self, config: TransformerConfig) -> dict[str, Callable[[int], Tensor]]:
        """Sinusoids."""
        vectors, order = encodings(config), sines_first(config.d_model)
        return {POSITIONS.format(side): lambda n: vectors(n)[:, order] for side in SIDES}


def sines_first(d_model: int) -> Tensor:
    """The dimensions of the paper's positions, sines before cosines"""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
