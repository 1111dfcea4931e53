"""Models of CTranslate2: the Transformer's options and tensors under the names that they have there."""

from __future__ import annotations

__all__ = ["CTranslate2"]

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from s2s import CheckpointError
from s2s.foreign import Layout, NameTable, OptionNames, TensorNames
from s2s.nn import TABLES
from s2s_transformer import TransformerConfig
from s2s_transformer.foreign import PAPER, SIDES, TransformerFormat, encodings, n_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor


LAYER = {
    "attention.qkv": "self_attention/linear_0",
    "attention.out": "self_attention/linear_1",
    "feed_forward.inner": "ffn/linear_0",
    "feed_forward.out": "ffn/linear_1",
}
CROSS = {
    "cross_attention.q": "attention/linear_0",
    "cross_attention.kv": "attention/linear_1",
    "cross_attention.out": "attention/linear_2",
}
NORMS = {"attention_residual.norm": "self_attention/layer_norm", "feed_forward_residual.norm": "ffn/layer_norm"}
CROSS_NORMS = {"cross_attention_residual.norm": "attention/layer_norm"}
MAPS_AND_NORMS = {"encoder": (LAYER, NORMS), "decoder": (LAYER | CROSS, NORMS | CROSS_NORMS)}
LINEAR, NORM = {"weight": "weight", "bias": "bias"}, {"weight": "gamma", "bias": "beta"}
TABLE_NAMES = ("encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight")
POSITIONS, EMBEDDING_NORM = "{}/position_encodings/encodings", "{}/layernorm_embedding"
OWN = {"src": "encoder", "tgt": "decoder"}
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}


class CTranslate2(TransformerFormat):
    """Post-norm or pre-norm, with any vectors of positions. Scalar variables of a model are options."""

    title = "CTranslate2"
    options = (
        OptionNames("n_encoder_layers", ["encoder/num_layers"]),
        OptionNames("n_decoder_layers", ["decoder/num_layers"]),
        OptionNames("n_heads", ["encoder/num_heads", "decoder/num_heads"]),
        OptionNames("norm", ["encoder/pre_norm", "decoder/pre_norm"], {"post": False, "pre": True}),
        OptionNames("activation", ["encoder/activation", "decoder/activation"], ACTIVATIONS),
        OptionNames("scale_embeddings", ["encoder/scale_embeddings", "decoder/scale_embeddings"]),
        OptionNames("norm_eps", ["layer_norm_epsilon"]),
        OptionNames("zero_start", ["decoder/start_from_zero_embedding"], default=False),
    )
    implied: ClassVar = PAPER | {"positions": ("sinusoid", "sinusoid_t2t", "learned", "none")}
    del implied["zero_start"], implied["embedding_norm"], implied["position_offset"]

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; widths, sharing and positions follow from the tensors."""
        numbers = {f"{side}/num_layers": _count(side, tensors) for side in SIDES}
        d_ff, d_model = tensors["encoder/layer_0/ffn/linear_0/weight"].shape
        widths = {"d_model": d_model, "d_ff": d_ff, "output_bias": "decoder/projection/bias" in tensors}
        widths["embedding_norm"] = f"{EMBEDDING_NORM.format('encoder')}/gamma" in tensors
        read = super().read_options({**config, **numbers}, tensors)
        return {
            **read,
            **widths,
            "position_offset": 0,
            "share_embeddings": _sharing(tensors),
            **_positions(d_model, tensors),
        }

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the tensors in model.bin."""
        tables = [f"embeddings.{name}" for name in TABLES[config.share_embeddings]]
        rows = [TensorNames(own, [there]) for own, there in zip(tables, TABLE_NAMES, strict=True)]
        if config.output_bias:
            rows.append(TensorNames("embeddings.bias", ["decoder/projection/bias"]))
        for own, side in OWN.items() if config.embedding_norm else ():
            norm = EMBEDDING_NORM.format(side)
            rows += [TensorNames(f"{own}_embedding_norm.{here}", [f"{norm}/{there}"]) for here, there in NORM.items()]
        for side, n in n_layers(config).items():
            for names, kinds in zip(MAPS_AND_NORMS[side], (LINEAR, NORM), strict=True):
                for native, there in names.items():
                    for own, kind in kinds.items():
                        row = TensorNames(f"{side}.{{}}.{native}.{own}", [f"{side}/layer_{{}}/{there}/{kind}"])
                        rows += [row.numbered(layer) for layer in range(n)]
            if config.norm == "pre":
                rows += [TensorNames(f"{side}_norm.{own}", [f"{side}/layer_norm/{kind}"]) for own, kind in NORM.items()]
        if config.positions != "learned":
            return NameTable(
                rows, {POSITIONS.format(side): encodings(config, config.position_offset) for side in SIDES}
            )
        scale = Layout.scaled(math.sqrt(config.d_model) if config.scale_embeddings and config.scale_positions else 1)
        first = config.position_offset  # rows before it are not used, and read back as zeros
        used = Layout(lambda x: x[first:], lambda x: torch.nn.functional.pad(x, (0, 0, first, 0)))
        for own, side in OWN.items():
            rows.append(TensorNames(f"{own}_positions.weight", [POSITIONS.format(side)], [used, scale]))
        return NameTable(rows)


def _count(side: str, tensors: Mapping[str, Tensor]) -> int:
    numbers = (name.split("/")[1] for name in tensors if name.startswith(f"{side}/layer_"))
    return len(set(numbers) - {"layer_norm"})


def _sharing(tensors: Mapping[str, Tensor]) -> str:
    """`arch.share_embeddings` of equal matrices."""
    source, target, softmax = (tensors[name] for name in TABLE_NAMES)
    of_inputs = source.shape == target.shape and torch.equal(source, target)
    if torch.equal(target, softmax):
        return "shared" if of_inputs else "target"
    return "inputs" if of_inputs else "none"


def _positions(d_model: int, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """`arch.positions` that gives these vectors; learned ones if no other does."""
    vectors = [tensors[POSITIONS.format(side)] for side in SIDES]
    known = [TransformerConfig(positions="none", d_model=d_model, n_heads=1)]
    if d_model % 2 == 0:
        t2t = replace(known[0], positions="sinusoid_t2t")
        known += [replace(t2t, positions="sinusoid"), t2t, replace(t2t, position_offset=2)]
    for config in known:
        expected = encodings(config, config.position_offset)
        if all(torch.allclose(x, expected(len(x)), atol=1e-5) for x in vectors):
            return {"positions": config.positions, "position_offset": config.position_offset}
    if len(vectors[0]) != len(vectors[1]):
        raise CheckpointError("encoder and decoder have different numbers of learned positions")
    return {"positions": "learned", "max_positions": len(vectors[0])}
