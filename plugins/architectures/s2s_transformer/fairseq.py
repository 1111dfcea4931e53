"""Transformers of fairseq, as `open_fairseq` reads them: options and tensors under the names that they have
there, which are BART's without a prefix."""

from __future__ import annotations

__all__ = ["Fairseq"]

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from s2s import CheckpointError
from s2s.foreign import NameTable, OptionNames
from s2s_transformer import TransformerConfig
from s2s_transformer.fairseq_files import open_fairseq
from s2s_transformer.foreign import PAPER, SIDES, embedding_rows, sharing
from s2s_transformer.huggingface import PREFIX, BartFamily

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from s2s import Choice
    from s2s.foreign import TensorNames

SEPARATE = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
OLD_SOFTMAX = "decoder.embed_out"
OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
PAD = 1
"""The id of padding in a dictionary of fairseq; positions count from the one after it"""
REQUIRED = {
    "adaptive_softmax_cutoff": None,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "no_token_positional_embeddings": False,
    "no_decoder_final_norm": False,
    "character_embeddings": False,
    "encoder_layers_to_keep": None,
    "decoder_layers_to_keep": None,
}
"""Options with the value that is read, which is also that of a file without the option"""


class Fairseq(BartFamily):
    """transformer of fairseq, and its bart."""

    title = "fairseq"
    options: ClassVar[Sequence[OptionNames]] = (
        OptionNames("n_encoder_layers", ["encoder_layers"]),
        OptionNames("n_decoder_layers", ["decoder_layers"]),
        OptionNames("d_model", ["encoder_embed_dim", "decoder_embed_dim"]),
        OptionNames("d_ff", ["encoder_ffn_embed_dim", "decoder_ffn_embed_dim"]),
        OptionNames("n_heads", ["encoder_attention_heads", "decoder_attention_heads"]),
        OptionNames(
            "norm",
            ["encoder_normalize_before", "decoder_normalize_before"],
            {"post": False, "pre": True},
            default=False,
        ),
        OptionNames(
            "activation",
            ["activation_fn"],
            {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_accurate", "silu": "swish"},
            default="relu",
        ),
        OptionNames("scale_embeddings", ["no_scale_embedding"], {True: False, False: True}, default=False),
        OptionNames("embedding_norm", ["layernorm_embedding"], default=False),
        OptionNames(
            "positions",
            ["encoder_learned_pos", "decoder_learned_pos"],
            {"sinusoid_t2t": False, "learned": True},
            default=False,
        ),
        OptionNames("dropout", ["dropout"], default=0.1),
        OptionNames("attention_dropout", ["attention_dropout"], default=0.0),
        OptionNames("relu_dropout", ["activation_dropout"], default=0.0),
    )
    implied: ClassVar = PAPER | {
        "position_offset": (PAD + 1,),
        "scale_positions": (False, True),
        "output_bias": (False,),
    }
    del implied["embedding_norm"]

    def open(self, path: Path) -> tuple[dict[str, Any], Mapping[str, Tensor]]:
        """Those of a checkpoint, as `open_fairseq` reads them, under the names of newer versions."""
        options, tensors = open_fairseq(path)
        return options, upgraded(tensors)

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class."""
        assert isinstance(config, TransformerConfig)
        longest = dict.fromkeys(("max_source_positions", "max_target_positions"), config.max_positions)
        tied = config.share_embeddings == "shared"
        return {
            **REQUIRED,
            **super().write_options(config),
            **(longest if config.positions == "learned" else {}),
            "arch": "transformer",
            "share_all_embeddings": tied,
            "share_decoder_input_output_embed": tied or config.share_embeddings == "target",
        }

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class.

        Raises CheckpointError naming an option of fairseq that no model here has.
        """
        for name, value in REQUIRED.items():
            if config.get(name, value) != value:
                raise CheckpointError(f"{name}={config[name]} is not read; a model needs {name}={value}")
        if "activation_dropout" not in config:  # its name in old versions
            config = {**config, "activation_dropout": config.get("relu_dropout", 0.0)}
        tensors = upgraded(tensors)
        read, name = super().read_options(config, tensors), "encoder.embed_positions.weight"
        if read["positions"] != "learned":
            return read
        if name not in tensors:
            raise CheckpointError(f"'{name}' is missing")
        return {**read, "max_positions": len(tensors[name]) - PAD - 1}

    def shared(self, tensors: Mapping[str, Tensor]) -> str:
        """`arch.share_embeddings` of these matrices."""
        names = [PREFIX + name for name in SEPARATE]
        return sharing(tensors, names[0], names)

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the tensors of `upgraded`."""
        rows: list[TensorNames] = []
        for row in embedding_rows(config, SEPARATE[0], SEPARATE, writes_copies=True):
            if row.foreign not in [known.foreign for known in rows]:
                rows.append(row)
        for row in super().names(config).tensors:
            if not row.native.startswith("embeddings."):
                rows.append(replace(row, foreign=[name.removeprefix(PREFIX) for name in row.foreign]))
        ignored = [f"{side}.{name}" for side in SIDES for name in ("version", "embed_positions._float_tensor")]
        return FairseqTable(rows, ignored=ignored)


class FairseqTable(NameTable):
    """Also for the names of old versions."""

    def named(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """As in the base class."""
        return upgraded(tensors)


def upgraded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A file's tensors under the names of newer versions."""
    new: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name == OLD_SOFTMAX:
            new[SEPARATE[2]] = tensor
        elif found := re.fullmatch(r"(.+_attn\.)in_proj_(weight|bias)", name):
            parts = zip(("q", "k", "v"), tensor.chunk(3), strict=False)
            new |= {f"{found[1]}{part}_proj.{found[2]}": x for part, x in parts}
        elif found := re.fullmatch(r"((encoder|decoder)\.layers\.\d+\.)layer_norms\.(\d)\.(weight|bias)", name):
            norms = OLD_NORMS[found[2]]
            if int(found[3]) >= len(norms):
                raise CheckpointError(f"'{name}' is unknown here")
            new[f"{found[1]}{norms[int(found[3])]}.{found[4]}"] = tensor
        else:
            new[name] = tensor
    return new
