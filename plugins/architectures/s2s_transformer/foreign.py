"""What the formats of other programs have in common when a Transformer is written in them."""

from __future__ import annotations

__all__ = [
    "PAPER",
    "SIDES",
    "TransformerFormat",
    "embedding_rows",
    "encodings",
    "n_layers",
    "sharing",
    "sharing_of_inputs",
]

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from s2s import CheckpointError, ConfigError
from s2s.foreign import ForeignFormat, TensorNames
from s2s.nn import TABLES, Sinusoids
from s2s_transformer import TransformerConfig
from s2s_transformer.layers import heads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from s2s import Choice
    from s2s.foreign import Layout

PAPER = {
    "norm_kind": ("layer",),
    "gated": (False,),
    "attention_score": ("scaled_dot",),
    "self_attention": ("full",),
    "cross_attention": ("soft",),
    "guide": ("none",),
    "words": ("tokens",),
    "bias": (True,),
    "embedding_norm": (False,),
    "position_offset": (0,),
    "scale_positions": (True, False),
    "scale_output": (False,),
    "zero_start": (False,),
    "decoder_self_attention": ("attention",),
}
"""Options that no format has yet, with the values that all can express"""
SIDES = ("encoder", "decoder")


class TransformerFormat(ForeignFormat):
    """A format with as many heads of keys and values as of queries, all of one width."""

    has_d_k: ClassVar[bool] = False
    """Whether heads may be of another width than d_model / n_heads"""

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class; raises ConfigError for heads of other widths or fewer heads of keys, too."""
        assert isinstance(config, TransformerConfig)
        own = heads(config)
        width = own.d_k if self.has_d_k else config.d_model / config.n_heads
        if (own.d_k, own.d_v, own.n_kv_heads) != (width, width, config.n_heads):
            raise ConfigError(
                f"arch.d_k={own.d_k}, d_v={own.d_v}, n_kv_heads={own.n_kv_heads}: {self.title} has only heads of "
                f"{'one width' if self.has_d_k else 'width d_model / n_heads'}, each with keys and values of its own"
            )
        return super().write_options(config)


def n_layers(config: TransformerConfig) -> dict[str, int]:
    """Side -> its number of layers."""
    return {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}


def encodings(config: TransformerConfig, first: int = 0) -> Callable[[int], Tensor]:
    """Function of n -> the encodings of n positions from `first`, [n, d_model]; zeros for positions=none"""
    if config.positions == "none":
        return lambda n: torch.zeros(n, config.d_model)
    sinusoids = Sinusoids(config.d_model, "t2t" if config.positions == "sinusoid_t2t" else "paper")
    return lambda n: sinusoids(torch.arange(first, first + n), torch.float32)


def embedding_rows(
    config: TransformerConfig,
    shared: str,
    separate: Sequence[str],
    layouts: Sequence[Layout] = (),
    *,
    writes_copies: bool = False,
) -> list[TensorNames]:
    """Rows of the matrices of source, target and softmax, named `separate` there, or `shared` for the one that
    source and target share."""
    rows = [TensorNames("embeddings.shared", [shared], layouts)] if "shared" in TABLES[config.share_embeddings] else []
    for native, there in zip(TABLES[config.share_embeddings], separate, strict=True):
        is_copy = any(row.native == f"embeddings.{native}" for row in rows)
        is_written = writes_copies or not is_copy
        rows.append(TensorNames(f"embeddings.{native}", [there], layouts, optional=is_copy, is_written=is_written))
    return rows


def sharing(tensors: Mapping[str, Tensor], shared: str, separate: Sequence[str]) -> str:
    """`arch.share_embeddings` of a file's matrices, which are compared; raises CheckpointError if it has none.

    Where it lacks one of `separate`, that is the one which source and target share, or another copy of it.
    """
    source, target, softmax = separate
    orders = ((source, shared, target, softmax), (target, shared, softmax, source), (softmax, target, shared, source))
    names = [_first(tensors, order) for order in orders]
    if _equal(tensors, names[1], names[2]):
        return "shared" if _equal(tensors, names[0], names[1]) else "target"
    return "inputs" if _equal(tensors, names[0], names[1]) else "none"


def sharing_of_inputs(tensors: Mapping[str, Tensor], shared: str, separate: Sequence[str]) -> str:
    """The same where source and target are always one."""
    source, target, softmax = separate
    name = _first(tensors, (shared, source, target, softmax))
    return "shared" if softmax not in tensors or _equal(tensors, name, softmax) else "inputs"


def _first(tensors: Mapping[str, Tensor], names: Sequence[str]) -> str:
    """The first of the names that the file has"""
    found = next((name for name in names if name in tensors), None)
    if found is None:
        raise CheckpointError(f"'{names[0]}' is missing, and its copies too")
    return found


def _equal(tensors: Mapping[str, Tensor], a: str, b: str) -> bool:
    return a == b or (tensors[a].shape == tensors[b].shape and torch.equal(tensors[a], tensors[b]))
