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
from s2s_transformer.layers import heads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from s2s import Choice


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
GATE = {"feed_forward.gate": "ffn/linear_0_noact"}
ATTENTIONS = {"encoder": ("self_attention",), "decoder": ("self_attention", "attention")}
SELF_ATTENTION, FEED_FORWARD = "{}/layer_{}/self_attention", "encoder/layer_0/ffn"
LINEAR, NORM = {"weight": "weight", "bias": "bias"}, {"weight": "gamma", "bias": "beta"}
TABLE_NAMES = ("encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight")
POSITIONS, EMBEDDING_NORM = "{}/position_encodings/encodings", "{}/layernorm_embedding"
RELATIVE, FURTHEST = f"{SELF_ATTENTION}/relative_attention_bias", f"{SELF_ATTENTION}/relative_attention_max_distance"
QUERIES, OUTPUTS = "{}/layer_{}/{}/queries_scale", "decoder/scale_outputs"
OWN = {"src": "encoder", "tgt": "decoder"}
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}


class CTranslate2(TransformerFormat):
    """Post-norm or pre-norm, with any vectors of positions or T5's biases by distance. Scalar variables of a model are
    options."""

    title = "CTranslate2"
    has_d_k = True
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
    implied: ClassVar = PAPER | {
        "positions": ("sinusoid", "sinusoid_t2t", "learned", "none", "relative_bias"),
        "attention_score": ("scaled_dot", "dot"),
    }
    for name in ("zero_start", "embedding_norm", "position_offset", "norm_kind", "gated", "bias", "scale_output"):
        del implied[name]
    del name

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class, with the scalars of each layer."""
        assert isinstance(config, TransformerConfig)
        written = super().write_options(config)
        width, layers = heads(config).d_k, n_layers(config)
        if config.attention_score == "dot" or width * config.n_heads != config.d_model:  # else d_k ** -0.5 there, too
            scale = 1.0 if config.attention_score == "dot" else width**-0.5
            written |= dict.fromkeys(_queries_scales(layers), scale)
        if config.positions == "relative_bias":
            written |= dict.fromkeys(_of_self_attention(FURTHEST, layers), config.bias_distance)
        return written | ({OUTPUTS: config.d_model**-0.5} if config.scale_output else {})

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; widths, sharing, positions, biases and gates follow from the tensors."""
        layers = {side: _count(side, tensors) for side in SIDES}
        read = super().read_options({**config, **{f"{side}/num_layers": n for side, n in layers.items()}}, tensors)
        d_ff, d_model = tensors[f"{FEED_FORWARD}/linear_0/weight"].shape
        d_k = len(tensors["encoder/layer_0/self_attention/linear_0/weight"]) // 3 // read["n_heads"]
        width = None if d_k * read["n_heads"] == d_model else d_k
        has_bias = RELATIVE.format("encoder", 0) in tensors
        return {
            **read,
            "d_model": d_model,
            "d_ff": d_ff,
            "d_k": width,
            "d_v": width,
            "output_bias": "decoder/projection/bias" in tensors,
            "embedding_norm": f"{EMBEDDING_NORM.format('encoder')}/gamma" in tensors,
            "bias": f"{FEED_FORWARD}/linear_0/bias" in tensors,
            "gated": f"{FEED_FORWARD}/linear_0_noact/weight" in tensors,
            "norm_kind": "layer" if f"{FEED_FORWARD}/layer_norm/beta" in tensors else "rms",
            "attention_score": _attention_score(config, _queries_scales(layers), d_k),
            "scale_output": _scales_output(config, d_model),
            "share_embeddings": _sharing(tensors),
            "position_offset": 0,
            **(_relative_bias(config, tensors, layers) if has_bias else _positions(d_model, tensors)),
        }

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the tensors in model.bin."""
        norm_kinds = NORM if config.norm_kind == "layer" else {"weight": "gamma"}
        linear_kinds = LINEAR if config.bias else {"weight": "weight"}
        tables = [f"embeddings.{name}" for name in TABLES[config.share_embeddings]]
        rows = [TensorNames(own, [there]) for own, there in zip(tables, TABLE_NAMES, strict=True)]
        if config.output_bias:
            rows.append(TensorNames("embeddings.bias", ["decoder/projection/bias"]))
        for own, side in OWN.items() if config.embedding_norm else ():
            norm = EMBEDDING_NORM.format(side)
            rows += [
                TensorNames(f"{own}_embedding_norm.{here}", [f"{norm}/{there}"]) for here, there in norm_kinds.items()
            ]
        for side, n in n_layers(config).items():
            maps, norms = MAPS_AND_NORMS[side]
            for names, kinds in ((maps | (GATE if config.gated else {}), linear_kinds), (norms, norm_kinds)):
                for native, there in names.items():
                    for own, kind in kinds.items():
                        row = TensorNames(f"{side}.{{}}.{native}.{own}", [f"{side}/layer_{{}}/{there}/{kind}"])
                        rows += [row.numbered(layer) for layer in range(n)]
            if config.norm == "pre":
                rows += [
                    TensorNames(f"{side}_norm.{own}", [f"{side}/layer_norm/{kind}"]) for own, kind in norm_kinds.items()
                ]
        positions = _position_rows(config)
        if config.positions in ("learned", "relative_bias"):
            return NameTable([*rows, *positions])
        return NameTable(rows, {POSITIONS.format(side): encodings(config, config.position_offset) for side in SIDES})


def _position_rows(config: TransformerConfig) -> list[TensorNames]:
    """Of the learned positions, or of the biases by distance, which each layer has there."""
    if config.positions == "relative_bias":
        return [
            TensorNames(f"{own}_bias.weight", [RELATIVE.format(side, layer)])
            for own, side in OWN.items()
            for layer in range(n_layers(config)[side])
        ]
    if config.positions != "learned":
        return []
    scale = Layout.scaled(math.sqrt(config.d_model) if config.scale_embeddings and config.scale_positions else 1)
    first = config.position_offset  # rows before it are not used, and read back as zeros
    used = Layout(lambda x: x[first:], lambda x: torch.nn.functional.pad(x, (0, 0, first, 0)))
    return [
        TensorNames(f"{own}_positions.weight", [POSITIONS.format(side)], [used, scale]) for own, side in OWN.items()
    ]


def _queries_scales(layers: Mapping[str, int]) -> list[str]:
    """The scalars of all attentions that scale queries."""
    return [
        QUERIES.format(side, layer, attention)
        for side, n in layers.items()
        for layer in range(n)
        for attention in ATTENTIONS[side]
    ]


def _of_self_attention(name: str, layers: Mapping[str, int]) -> list[str]:
    return [name.format(side, layer) for side, n in layers.items() for layer in range(n)]


def _attention_score(config: Mapping[str, Any], names: Sequence[str], d_k: int) -> str:
    """`arch.attention_score` of the scales of queries; raises CheckpointError for other ones."""
    scales = {round(float(config.get(name, d_k**-0.5)), 6) for name in names}
    for score, scale in (("scaled_dot", d_k**-0.5), ("dot", 1.0)):
        if scales == {round(scale, 6)}:
            return score
    raise CheckpointError(f"queries_scale={', '.join(map(str, sorted(scales)))}: known here: 1 and {d_k}^-0.5")


def _scales_output(config: Mapping[str, Any], d_model: int) -> bool:
    scale = config.get(OUTPUTS, 1.0)
    if not any(math.isclose(scale, known, rel_tol=1e-5) for known in (1.0, d_model**-0.5)):
        raise CheckpointError(f"{OUTPUTS}={scale}: known here: 1 and {d_model}^-0.5")
    return bool(not math.isclose(scale, 1.0, rel_tol=1e-5))


def _relative_bias(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], layers: Mapping[str, int]
) -> dict[str, Any]:
    """Options of the biases by distance; that all layers have the same is checked as the tensors are loaded."""
    option = OptionNames("bias_distance", _of_self_attention(FURTHEST, layers))
    n_buckets = len(tensors[RELATIVE.format("encoder", 0)])
    return {"positions": "relative_bias", "bias_buckets": n_buckets, "bias_distance": option.read(config)}


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
