"""Models of Hugging Face that are built as its BartForConditionalGeneration is: the Transformer's options and tensors
under the names that they have there."""

from __future__ import annotations

__all__ = ["M2M100", "OWN", "POSITIONS", "PREFIX", "READ", "SHARED", "WRITTEN", "Bart", "BartFamily", "MBart"]

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from s2s import CheckpointError, ConfigError
from s2s.foreign import Layout, NameTable, OptionNames, TensorNames
from s2s_transformer import TransformerConfig
from s2s_transformer.foreign import (
    PAPER,
    SIDES,
    TransformerFormat,
    embedding_rows,
    encodings,
    n_layers,
    sharing_of_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from s2s import Choice

READ, WRITTEN = 1, 0
"""The dimension of a weight that is the hidden state's: of a linear map that reads it, or of what is added to it"""

LAYER = (
    ("attention.qkv", ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], READ),
    ("attention.out", ["self_attn.out_proj"], WRITTEN),
    ("attention_residual.norm", ["self_attn_layer_norm"], WRITTEN),
    ("feed_forward.inner", ["fc1"], READ),
    ("feed_forward.out", ["fc2"], WRITTEN),
    ("feed_forward_residual.norm", ["final_layer_norm"], WRITTEN),
)
CROSS = (
    ("cross_attention.q", ["encoder_attn.q_proj"], READ),
    ("cross_attention.kv", ["encoder_attn.k_proj", "encoder_attn.v_proj"], READ),
    ("cross_attention.out", ["encoder_attn.out_proj"], WRITTEN),
    ("cross_attention_residual.norm", ["encoder_attn_layer_norm"], WRITTEN),
)
LAYERS = {"encoder": LAYER, "decoder": LAYER + CROSS}
PREFIX, SHARED = "model.", "model.shared.weight"
OWN = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
BIAS = "final_logits_bias"
POSITIONS = "model.{}.embed_positions.weight"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
SYNONYMS = {"swish": "silu", "gelu_python": "gelu", "gelu_fast": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}


class BartFamily(TransformerFormat):
    """What all have in common; one matrix for source and target."""

    options: ClassVar[Sequence[OptionNames]] = (
        OptionNames("n_encoder_layers", ["encoder_layers"]),
        OptionNames("n_decoder_layers", ["decoder_layers"]),
        OptionNames("d_model", ["d_model"]),
        OptionNames("d_ff", ["encoder_ffn_dim", "decoder_ffn_dim"]),
        OptionNames("n_heads", ["encoder_attention_heads", "decoder_attention_heads"]),
        OptionNames("activation", ["activation_function"], ACTIVATIONS, SYNONYMS, default="gelu"),
        OptionNames("scale_embeddings", ["scale_embedding"], default=False),
        OptionNames("share_embeddings", ["tie_word_embeddings"], {"shared": True, "inputs": False}, default=True),
        OptionNames("dropout", ["dropout"], default=0.1),
        OptionNames("attention_dropout", ["attention_dropout"], default=0.0),
        OptionNames("relu_dropout", ["activation_dropout"], default=0.0),
    )
    assumed: ClassVar = {"norm_eps": 1e-5}

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class."""
        kind = {"model_type": self.model_types[0]} if self.model_types else {}
        return {**kind, **super().write_options(config)}

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; the tensors say which matrices are one, and whether there is a bias of the softmax: one
        that is zero is none."""
        tensors = named(tensors)
        read = {**super().read_options(config, tensors), "share_embeddings": self.shared(tensors)}
        if "output_bias" not in self.implied:
            read["output_bias"] = BIAS in tensors and bool(tensors[BIAS].any())
        return read

    def shared(self, tensors: Mapping[str, Tensor]) -> str:
        """`arch.share_embeddings` of these matrices."""
        return sharing_of_inputs(tensors, SHARED, OWN)

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the model's `state_dict()` there."""
        layouts = self.layouts(config)
        # Where the softmax has a matrix of its own, transformers takes those of source and target for two.
        is_untied = config.share_embeddings == "inputs"
        rows = embedding_rows(config, SHARED, OWN, layouts[READ], writes_copies=is_untied)
        if config.output_bias:
            rows.append(TensorNames("embeddings.bias", [BIAS], [Layout.row()]))
        computed = self.computed(config)
        for side, own, n in zip(SIDES, ("src", "tgt"), n_layers(config).values(), strict=True):
            norms = {f"{own}_embedding_norm": "layernorm_embedding"} if config.embedding_norm else {}
            norms |= {f"{side}_norm": "layer_norm"} if config.norm == "pre" else {}
            for native, norm in norms.items():
                rows += _weight_and_bias(native, [f"model.{side}.{norm}"], layouts[WRITTEN], layouts[WRITTEN])
            for native, foreign, dim in LAYERS[side]:
                there = [f"model.{side}.layers.{{}}.{name}" for name in foreign]
                of_bias = layouts[WRITTEN] if dim == WRITTEN else ()
                pair = _weight_and_bias(f"{side}.{{}}.{native}", there, layouts[dim], of_bias)
                rows += [row.numbered(layer) for layer in range(n) for row in pair]
            if config.positions == "learned":
                rows.append(TensorNames(f"{own}_positions.weight", [POSITIONS.format(side)]))
        ignored = [f"model.{side}.version" for side in SIDES]
        return NameTable(rows, computed, () if config.output_bias else (BIAS,), ignored, PREFIX)

    def layouts(self, config: TransformerConfig) -> dict[int, Sequence[Layout]]:
        """Of the dimension of a weight that is the hidden state's"""
        del config
        return {READ: (), WRITTEN: ()}

    def computed(self, config: TransformerConfig) -> dict[str, Callable[[int], Tensor]]:
        """See `NameTable`."""
        del config
        return {}


class Bart(BartFamily):
    """Learned positions, and norms of the embeddings and after sub-layers; PLBart too, which scales its embeddings."""

    title = "BartForConditionalGeneration"
    model_types: ClassVar[Sequence[str]] = ("bart", "plbart")
    options = (*BartFamily.options, OptionNames("max_positions", ["max_position_embeddings"], default=1024))
    implied: ClassVar = PAPER | {
        "norm": ("post",),
        "embedding_norm": (True,),
        "positions": ("learned",),
        "position_offset": (2,),
        "scale_positions": (False,),
    }

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; the number of positions is the matrix's."""
        read, name = super().read_options(config, tensors), POSITIONS.format("encoder")
        if name not in (tensors := named(tensors)):
            raise CheckpointError(f"'{name}' is missing")
        return {**read, "max_positions": len(tensors[name]) - read["position_offset"]}


class MBart(Bart):
    """The same with pre-norm: mBART and mBART-50."""

    title = "MBartForConditionalGeneration"
    model_types = ("mbart",)
    implied: ClassVar = Bart.implied | {"norm": ("pre",)}


class M2M100(BartFamily):
    """Pre-norm and sinusoids, which count from the id of padding, plus one: M2M-100 and NLLB-200."""

    title = "M2M100ForConditionalGeneration"
    model_types = ("m2m_100",)
    implied: ClassVar = PAPER | {"norm": ("pre",), "positions": ("sinusoid_t2t",), "output_bias": (False,)}
    del implied["position_offset"]

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class; raises ConfigError where no id of padding gives the positions."""
        assert isinstance(config, TransformerConfig)
        if config.position_offset == 0:
            raise ConfigError(f"arch.position_offset=0: {self.title} has only 1 or more: the id of padding, plus 1")
        return {**super().write_options(config), "pad_token_id": config.position_offset - 1}

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class."""
        pad = OptionNames("position_offset", ["pad_token_id"], default=1).read(config)
        if not isinstance(pad, int) or pad < 0:
            raise CheckpointError(f"pad_token_id={pad} is no id")
        return {**super().read_options(config, tensors), "position_offset": pad + 1}

    def names(self, config: TransformerConfig) -> NameTable:
        """As in the base class; the bias of others is no tensor of this one."""
        table = super().names(config)
        return replace(table, zeros=(), ignored=[*table.ignored, BIAS])

    def computed(self, config: TransformerConfig) -> dict[str, Callable[[int], Tensor]]:
        """Sinusoids, which early files have; their row of padding is zero."""
        vectors, pad = encodings(config), config.position_offset - 1

        def rows(n: int) -> Tensor:
            return vectors(n).index_fill(0, torch.tensor([pad]), 0) if n > pad else vectors(n)

        return {f"model.{side}.embed_positions.{kind}": rows for side in SIDES for kind in ("weight", "weights")}


def named(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """A file's tensors with the prefix that a file of the model without softmax lacks."""
    return NameTable((), ignored=[BIAS, OWN[2]], prefix=PREFIX).named(tensors)


def _weight_and_bias(
    native: str, foreign: Sequence[str], of_weight: Sequence[Layout], of_bias: Sequence[Layout]
) -> list[TensorNames]:
    parts = (("weight", of_weight), ("bias", of_bias))
    return [TensorNames(f"{native}.{kind}", [f"{name}.{kind}" for name in foreign], of) for kind, of in parts]
