"""Models of Marian itself, as `open_marian` reads them: the Transformer's options and tensors under the
names that they have there.

Unlike Hugging Face's MarianMTModel it has tensor2tensor's wavelengths, reads a zero vector before the first token, and
may have a recurrent unit in place of the decoder's self-attention.
"""

from __future__ import annotations

__all__ = ["MarianNpz"]

from typing import TYPE_CHECKING, Any, ClassVar

from s2s import CheckpointError
from s2s.foreign import Layout, NameTable, OptionNames, TensorNames
from s2s_transformer import TransformerConfig
from s2s_transformer.foreign import PAPER, SIDES, TransformerFormat, embedding_rows, n_layers
from s2s_transformer.marian_files import MarianTensors, open_marian

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

    from s2s import Choice

SHARED, OUT, BIAS = "Wemb", "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_b"
SELF = {"attention.qkv": ("self_{}q", "self_{}k", "self_{}v"), "attention.out": ("self_{}o",)}
SSRU = {"attention.inner": ("rnn_{}",), "attention.forget": ("rnn_{}f",)}
CROSS = {
    "cross_attention.q": ("context_{}q",),
    "cross_attention.kv": ("context_{}k", "context_{}v"),
    "cross_attention.out": ("context_{}o",),
}
FEED_FORWARD = {"feed_forward.inner": ("ffn_{}1",), "feed_forward.out": ("ffn_{}2",)}
"""Names of weights and biases, with W or b in place of {}"""
REQUIRED = {
    "type": "transformer",
    "right-left": False,
    "ulr": False,
    "factors-dim-emb": 0,
    "lemma-dim-emb": 0,
    "transformer-ffn-depth": 2,
    "transformer-no-affine": False,
    "transformer-no-bias": False,
    "transformer-no-projection": False,
    "transformer-pool": False,
    "transformer-rnn-projection": False,
    "transformer-attention-mask": "default",
    "transformer-disable-position-embeddings": False,
}
"""Options with the value that is read, which is also that of a file without the option"""
AS_IN_ENCODER = {"transformer-decoder-dim-ffn": "transformer-dim-ffn", "transformer-decoder-ffn-depth": ""}
"""Options that are 0 where they are as in the encoder"""
NORMS = {"post": ("", "dan", ""), "pre": ("n", "da", "n")}
"""transformer-preprocess, -postprocess and -postprocess-top, where d is dropout, a the sum and n the norm"""
EMBEDDING = "transformer-postprocess-emb"


class MarianNpz(TransformerFormat):
    """Of Marian's file, model.npz."""

    title = "Marian"
    options = (
        OptionNames("n_encoder_layers", ["enc-depth"]),
        OptionNames("n_decoder_layers", ["dec-depth"]),
        OptionNames("d_model", ["dim-emb"]),
        OptionNames("d_ff", ["transformer-dim-ffn"]),
        OptionNames("n_heads", ["transformer-heads"]),
        OptionNames("activation", ["transformer-ffn-activation"], {"relu": "relu", "silu": "swish"}),
        OptionNames(
            "decoder_self_attention",
            ["transformer-decoder-autoreg"],
            {"attention": "self-attention", "ssru": "rnn"},
            default="self-attention",
        ),
    )
    implied: ClassVar = PAPER | {
        "scale_embeddings": (True,),
        "positions": ("sinusoid_t2t",),
        "zero_start": (True,),
        "output_bias": (True, False),
    }
    assumed: ClassVar = {"norm_eps": 1e-6}
    del implied["decoder_self_attention"], implied["embedding_norm"]

    def open(self, path: Path) -> tuple[dict[str, Any], Mapping[str, Tensor]]:
        """Those of a model.npz, as `open_marian` reads them."""
        return open_marian(path)

    def multipliers(self, tensors: Mapping[str, Tensor], name: str) -> tuple[float, float] | None:
        """Those that a model.bin has."""
        assert isinstance(tensors, MarianTensors)
        return tensors.multipliers(name)

    def write_options(self, config: Choice) -> dict[str, Any]:
        """As in the base class."""
        assert isinstance(config, TransformerConfig)
        before, after, top = NORMS[config.norm]
        return {
            **REQUIRED,
            **dict.fromkeys(AS_IN_ENCODER, 0),
            **super().write_options(config),
            "dec-cell": "ssru" if config.decoder_self_attention == "ssru" else "gru",
            "transformer-preprocess": before,
            "transformer-postprocess": after,
            "transformer-postprocess-top": top,
            EMBEDDING: "nd" if config.embedding_norm else "d",
            "tied-embeddings-all": config.share_embeddings == "shared",
            "tied-embeddings-src": config.share_embeddings == "inputs",
            "tied-embeddings": config.share_embeddings == "target",
            "output-omit-bias": not config.output_bias,
            "transformer-tied-layers": [],
        }

    def read_options(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """As in the base class; the tensors say which matrices are one.

        Raises CheckpointError naming an option of Marian that no model here has.
        """
        for name, value in REQUIRED.items():
            if config.get(name, value) != value:
                raise CheckpointError(f"{name}={config[name]} is not read; a model needs {name}={value}")
        for name, encoders in AS_IN_ENCODER.items():
            if config.get(name, 0) not in (0, config.get(encoders, 2)):
                raise CheckpointError(f"{name}={config[name]} is not read: it differs from the encoder's")
        cell = config.get("dec-cell", "ssru")
        if config.get("transformer-decoder-autoreg") == "rnn" and cell != "ssru":
            raise CheckpointError(f"dec-cell={cell} is not read; a recurrent decoder needs dec-cell=ssru")
        tied = OUT not in tensors
        return {
            **super().read_options(config, tensors),
            "norm": _norm(config),
            "embedding_norm": _operations(config, EMBEDDING, {"": False, "n": True}),
            "share_embeddings": ("shared" if tied else "inputs") if SHARED in tensors else "target" if tied else "none",
        }

    def names(self, config: TransformerConfig) -> NameTable:
        """Of the tensors of `open_marian`, which has one more token than the file."""
        rows = embedding_rows(config, SHARED, [f"{side}_Wemb" for side in SIDES] + [OUT])
        if config.output_bias:
            rows.append(TensorNames("embeddings.bias", [BIAS], [Layout.row()]))
        suffix = "_pre" if config.norm == "pre" else ""
        is_ssru = config.decoder_self_attention == "ssru"
        for side, own, n in zip(SIDES, ("src", "tgt"), n_layers(config).values(), strict=True):
            if config.embedding_norm:
                rows += _norm_rows(f"{own}_embedding_norm", f"{side}_emb_ln", "_pre")
            if config.norm == "pre":
                rows += _norm_rows(f"{side}_norm", f"{side}_top_ln", "")
            recurrent = is_ssru and side == "decoder"
            maps = (SSRU if recurrent else SELF) | FEED_FORWARD
            rnn = "rnn_ln" if config.norm == "pre" else "rnn_ffn_ln"
            norms = {"attention": rnn if recurrent else "self_Wo_ln", "feed_forward": "ffn_ffn_ln"}
            if side == "decoder":
                maps, norms = maps | CROSS, norms | {"cross_attention": "context_Wo_ln"}
            for layer in range(n):
                here, there = f"{side}.{layer}.", f"{side}_l{layer + 1}_"
                for native, foreign in maps.items():
                    rows += _map_rows(here + native, [there + name for name in foreign])
                for native, norm in norms.items():
                    rows += _norm_rows(f"{here}{native}_residual.norm", there + norm, suffix)
        return NameTable(rows)


def _map_rows(native: str, foreign: list[str]) -> list[TensorNames]:
    """Of a linear map, which is [I, O] there"""
    rows = [TensorNames(f"{native}.weight", [name.format("W") for name in foreign], [Layout.transposed()])]
    if native.endswith("attention.inner"):
        return rows  # it has no bias
    return [*rows, TensorNames(f"{native}.bias", [name.format("b") for name in foreign], [Layout.row()])]


def _norm_rows(native: str, foreign: str, suffix: str) -> list[TensorNames]:
    kinds = {"weight": "scale", "bias": "bias"}
    return [
        TensorNames(f"{native}.{own}", [f"{foreign}_{kind}{suffix}"], [Layout.row()]) for own, kind in kinds.items()
    ]


def _norm(config: Mapping[str, Any]) -> str:
    """`arch.norm` of the operations before and after sub-layers and at the top."""
    names = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
    operations = tuple(str(config.get(name) or "").replace("d", "") for name in names)
    for norm, values in NORMS.items():
        if operations == tuple(value.replace("d", "") for value in values):
            return norm
    given = ", ".join(f"{name}={config.get(name)}" for name in names)
    raise CheckpointError(f"{given} is not read; norms come after the sum (dan), or before and at the top (n, da, n)")


def _operations(config: Mapping[str, Any], name: str, values: Mapping[str, Any]) -> Any:
    found = str(config.get(name) or "").replace("d", "")
    if found not in values:
        raise CheckpointError(f"{name}={config[name]} is not read; it may be d, for dropout, and n, for a norm")
    return values[found]
