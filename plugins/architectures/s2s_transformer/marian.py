"""MarianMTModel of Hugging Face, and PegasusForConditionalGeneration, which is the same with pre-norm: the
Transformer's options and tensors under the names that they have there.

Both concatenate sines and cosines, whereas the paper interleaves them. The dimensions of a hidden state have no order,
so permuting every weight that reads or writes it gives the same model, bit for bit.
"""

from __future__ import annotations

__all__ = ["Marian"]

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from s2s.foreign import Layout, NameTable, OptionNames, TensorNames
from s2s_transformer.foreign import PAPER, SIDES, TransformerFormat, encodings, n_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from s2s_transformer import TransformerConfig

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
COPIES = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")


class Marian(TransformerFormat):
    """With the paper's sinusoids, and one matrix for source, target and softmax."""

    title = "MarianMTModel"
    model_types = ("marian", "pegasus")
    options = (
        OptionNames("norm", ["model_type"], {"post": "marian", "pre": "pegasus"}, default="marian"),
        OptionNames("n_encoder_layers", ["encoder_layers"]),
        OptionNames("n_decoder_layers", ["decoder_layers"]),
        OptionNames("d_model", ["d_model"]),
        OptionNames("d_ff", ["encoder_ffn_dim", "decoder_ffn_dim"]),
        OptionNames("n_heads", ["encoder_attention_heads", "decoder_attention_heads"]),
        OptionNames("activation", ["activation_function"], {n: n for n in ("relu", "gelu", "silu")}, {"swish": "silu"}),
        OptionNames("scale_embeddings", ["scale_embedding"], default=False),
        OptionNames("share_embeddings", ["share_encoder_decoder_embeddings"], {"shared": True}, default=True),
    )
    implied: ClassVar = PAPER | {"positions": ("sinusoid",)}
    assumed: ClassVar = {"norm_eps": 1e-5}

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; a bias of the softmax that is zero is none."""
        has_bias = "final_logits_bias" in tensors and bool(tensors["final_logits_bias"].any())
        return {**super().read_options(config, tensors), "output_bias": has_bias}

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the model's `state_dict()` there."""
        d = config.d_model
        order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])  # sines, then cosines
        permuted = {dim: Layout.permuted(order, dim) for dim in (READ, WRITTEN)}
        rows = [TensorNames("embeddings.shared", ["model.shared.weight"], [permuted[READ]])]
        rows += [TensorNames("embeddings.shared", [name], [permuted[READ]], optional=True) for name in COPIES]
        if config.output_bias:
            rows.append(TensorNames("embeddings.bias", ["final_logits_bias"], [Layout.row()]))
        for side, n in n_layers(config).items():
            if config.norm == "pre":
                rows += [
                    TensorNames(f"{side}_norm.{kind}", [f"model.{side}.layer_norm.{kind}"], [permuted[WRITTEN]])
                    for kind in ("weight", "bias")
                ]
            for native, foreign, dim in LAYERS[side]:
                for kind, layouts in (("weight", [permuted[dim]]), ("bias", [permuted[dim]] if dim == WRITTEN else [])):
                    there = [f"model.{side}.layers.{{}}.{name}.{kind}" for name in foreign]
                    row = TensorNames(f"{side}.{{}}.{native}.{kind}", there, layouts)
                    rows += [row.numbered(layer) for layer in range(n)]
        positions = encodings(config.positions, d)
        computed = {f"model.{side}.embed_positions.weight": lambda n: positions(n)[:, order] for side in SIDES}
        return NameTable(rows, computed, zeros=() if config.output_bias else ("final_logits_bias",))
