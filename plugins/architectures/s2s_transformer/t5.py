"""T5ForConditionalGeneration of Hugging Face: the Transformer's options and tensors under their names there.

T5 1.0, 1.1, mT5, MADLAD-400 and Flan-T5 differ in options that their configurations do not determine, so that the
tensors say which they are.
"""

from __future__ import annotations

__all__ = ["T5"]

from typing import TYPE_CHECKING, Any, ClassVar

from s2s import CheckpointError, ConfigError
from s2s.foreign import NameTable, OptionNames, TensorNames
from s2s_transformer import TransformerConfig
from s2s_transformer.foreign import PAPER, SIDES, TransformerFormat, embedding_rows, n_layers, sharing_of_inputs
from s2s_transformer.layers import heads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from s2s import Choice

SHARED = "shared.weight"
OWN = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
SELF = {
    "attention.qkv": ("SelfAttention.q", "SelfAttention.k", "SelfAttention.v"),
    "attention.out": ("SelfAttention.o",),
    "attention_residual.norm": ("layer_norm",),
}
CROSS = {
    "cross_attention.q": ("EncDecAttention.q",),
    "cross_attention.kv": ("EncDecAttention.k", "EncDecAttention.v"),
    "cross_attention.out": ("EncDecAttention.o",),
    "cross_attention_residual.norm": ("layer_norm",),
}
PLAIN = {"feed_forward.inner": ("DenseReluDense.wi",)}
GATED = {"feed_forward.inner": ("DenseReluDense.wi_0",), "feed_forward.gate": ("DenseReluDense.wi_1",)}
AFTER = {"feed_forward.out": ("DenseReluDense.wo",), "feed_forward_residual.norm": ("layer_norm",)}
GATE = "encoder.block.0.layer.1.DenseReluDense.wi_1.weight"
RELATIVE = "{}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""Old files have it; it was never added to a score"""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "silu": "silu", "swish": "silu"}
GATED_ACTIVATIONS = ACTIVATIONS | {"gelu": "gelu_tanh"}
"""gated-gelu has always been the approximation"""


class T5(TransformerFormat):
    """Biases of scores by distance, root mean square norms, and no biases of linear maps."""

    title = "T5ForConditionalGeneration"
    model_types = ("t5", "mt5")
    has_d_k = True
    options = (
        OptionNames("n_encoder_layers", ["num_layers"]),
        OptionNames("d_model", ["d_model"]),
        OptionNames("d_ff", ["d_ff"]),
        OptionNames("n_heads", ["num_heads"]),
        OptionNames("bias_buckets", ["relative_attention_num_buckets"], default=32),
        OptionNames("bias_distance", ["relative_attention_max_distance"], default=128),
        OptionNames("norm_eps", ["layer_norm_epsilon"], default=1e-6),
        OptionNames("dropout", ["dropout_rate"], default=0.1),
    )
    implied: ClassVar = PAPER | {
        "norm": ("pre",),
        "norm_kind": ("rms",),
        "bias": (False,),
        "attention_score": ("dot",),
        "positions": ("relative_bias",),
        "scale_embeddings": (False,),
        "output_bias": (False,),
    }
    del implied["gated"], implied["scale_output"]

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class; raises ConfigError for a matrix of the target alone and for gates that T5 lacks."""
        assert isinstance(config, TransformerConfig)
        tied = OptionNames("share_embeddings", ["tied"], {"shared": True, "inputs": False})
        is_tied = tied.write(config.share_embeddings, self.title)["tied"]
        known = GATED_ACTIVATIONS if config.gated else ACTIVATIONS
        names = {native: there for there, native in reversed(known.items())}
        if config.activation not in names:
            raise ConfigError(f"arch.activation={config.activation}: {self.title} has no gates with it")
        return {
            "model_type": "t5",
            **super().write_options(config),
            "num_decoder_layers": config.n_decoder_layers,
            "d_kv": heads(config).d_k,
            "feed_forward_proj": ("gated-" if config.gated else "") + names[config.activation],
            "tie_word_embeddings": is_tied,
            "scale_decoder_outputs": config.scale_output,
        }

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; the tensors say whether there are gates and a matrix of the softmax."""
        read, width = super().read_options(config, tensors), OptionNames("d_k", ["d_kv"], default=64).read(config)
        width = None if width * read["n_heads"] == read["d_model"] else width
        share = sharing_of_inputs(tensors, SHARED, OWN)
        is_gated = GATE in tensors
        return {
            **read,
            "n_decoder_layers": config.get("num_decoder_layers") or read["n_encoder_layers"],
            "d_k": width,
            "d_v": width,
            "gated": is_gated,
            "activation": _activation(config, is_gated=is_gated),
            "share_embeddings": share,
            "scale_output": _scales_output(config, is_tied=share == "shared"),
            "attention_dropout": read["dropout"],
            "relu_dropout": read["dropout"],
        }

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the model's `state_dict()` there."""
        rows = embedding_rows(config, SHARED, OWN)
        feed_forward = (GATED if config.gated else PLAIN) | AFTER
        sublayers = {"encoder": (SELF, feed_forward), "decoder": (SELF, CROSS, feed_forward)}
        for side, own, n in zip(SIDES, ("src", "tgt"), n_layers(config).values(), strict=True):
            rows.append(TensorNames(f"{own}_bias.weight", [RELATIVE.format(side)]))
            rows.append(TensorNames(f"{side}_norm.weight", [f"{side}.final_layer_norm.weight"]))
            for number, names in enumerate(sublayers[side]):
                for native, foreign in names.items():
                    there = [f"{side}.block.{{}}.layer.{number}.{name}.weight" for name in foreign]
                    row = TensorNames(f"{side}.{{}}.{native}.weight", there)
                    rows += [row.numbered(layer) for layer in range(n)]
        return NameTable(rows, ignored=[UNUSED])


def _activation(config: Mapping[str, Any], *, is_gated: bool) -> str:
    default = "gated-gelu" if config.get("model_type") == "mt5" else "relu"
    value = config.get("feed_forward_proj", default)
    known = GATED_ACTIVATIONS if is_gated else ACTIVATIONS
    name = str(value).removeprefix("gated-")
    if name not in known:
        raise CheckpointError(f"feed_forward_proj={value} is unknown here; known: {', '.join(known)}")
    return known[name]


def _scales_output(config: Mapping[str, Any], *, is_tied: bool) -> bool:
    """T5 1.0 does: before version 5 of transformers, where matrices were tied; since then a key of its own says it, and
    `tie_word_embeddings` is always true. mT5 never does."""
    if config.get("model_type") == "mt5":
        return False
    default = is_tied and config.get("tie_word_embeddings", True)
    return bool(config.get("scale_decoder_outputs", default))
