"""Models of Marian itself: random files, and their equations in numpy."""

from __future__ import annotations

__all__ = ["PRE", "SSRU", "V_SRC", "D", "Equations", "marian_options", "random_tensors", "written"]

from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


D, F, HEADS, V_SRC, V_TGT = 12, 20, 3, 17, 14
PRE = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}
SSRU = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru", "transformer-ffn-activation": "relu"}
Array = Any


def marian_options(**changes: Any) -> dict[str, Any]:
    sizes = {"enc-depth": 1, "dec-depth": 2, "dim-emb": D, "transformer-dim-ffn": F, "transformer-heads": HEADS}
    post = {"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""}
    others = {"transformer-postprocess-emb": "d", "transformer-ffn-activation": "swish", "tied-embeddings": True}
    return {"type": "transformer", **sizes, **post, **others, **changes}


def random_tensors(options: dict[str, Any], v_src: int = V_SRC, v_tgt: int = V_TGT) -> dict[str, Array]:
    """Under Marian's names, without the tensors of layers that are tied to others."""
    rng, tensors = np.random.default_rng(3), {}

    def add(name: str, *shape: int) -> None:
        around = 1.0 if "scale" in name else 0.0
        tensors[name] = (around + 0.4 * rng.standard_normal(shape)).astype(np.float32)

    def norm(name: str, suffix: str) -> None:
        add(f"{name}_scale{suffix}", 1, D)
        add(f"{name}_bias{suffix}", 1, D)

    one = options.get("tied-embeddings-all") or options.get("tied-embeddings-src")
    v_tgt = v_src if one else v_tgt
    for name, rows in ({"Wemb": v_src} if one else {"encoder_Wemb": v_src, "decoder_Wemb": v_tgt}).items():
        add(name, rows, D)
    if not options["tied-embeddings"] and not options.get("tied-embeddings-all"):
        add("decoder_ff_logit_out_Wt", v_tgt, D)
        if options.get("test") == "transposed":
            tensors["decoder_ff_logit_out_W"] = tensors.pop("decoder_ff_logit_out_Wt").T.copy()
    if not options.get("output-omit-bias"):
        add("decoder_ff_logit_out_b", 1, v_tgt)
    pre = "_pre" if options["transformer-preprocess"] == "n" else ""
    ssru = options.get("transformer-decoder-autoreg") == "rnn"
    depths = {"encoder": 1, "decoder": 1 if options.get("transformer-tied-layers") else 2}
    for side, depth in depths.items():
        if options["transformer-postprocess-emb"] == "nd":
            norm(f"{side}_emb_ln", "_pre")
        if pre:
            norm(f"{side}_top_ln", "")
        for layer in range(1, depth + 1):
            here = f"{side}_l{layer}_"
            for kind in ("self", "context") if side == "decoder" else ("self",):
                if kind == "self" and ssru and side == "decoder":
                    add(f"{here}rnn_W", D, D), add(f"{here}rnn_Wf", D, D), add(f"{here}rnn_bf", 1, D)
                    norm(f"{here}rnn_ln" if pre else f"{here}rnn_ffn_ln", pre)
                    continue
                for part in "qkvo":
                    add(f"{here}{kind}_W{part}", D, D), add(f"{here}{kind}_b{part}", 1, D)
                norm(f"{here}{kind}_Wo_ln", pre)
            (
                add(f"{here}ffn_W1", D, F),
                add(f"{here}ffn_b1", 1, F),
                add(f"{here}ffn_W2", F, D),
                add(f"{here}ffn_b2", 1, D),
            )
            norm(f"{here}ffn_ffn_ln", pre)
    return tensors


class Equations:
    """Marian's model, sentence by sentence in fp64."""

    def __init__(self, options: dict[str, Any], tensors: dict[str, Array]) -> None:
        self.options, self.w = options, {name: x.astype(np.float64) for name, x in tensors.items()}
        self.pre = options["transformer-preprocess"] == "n"

    def norm(self, x: Array, name: str, suffix: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * self.w[f"{name}_scale{suffix}"] + self.w[f"{name}_bias{suffix}"]

    def residual(self, x: Array, name: str, sublayer: Callable[[Array], Array]) -> Array:
        return x + sublayer(self.norm(x, name, "_pre")) if self.pre else self.norm(x + sublayer(x), name, "")

    def attend(self, x: Array, seen: Array, name: str, *, causal: bool) -> Array:
        q, k, v = (
            (y @ self.w[f"{name}_W{part}"] + self.w[f"{name}_b{part}"]).reshape(len(y), HEADS, -1)
            for part, y in (("q", x), ("k", seen), ("v", seen))
        )
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(D // HEADS)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        read = np.einsum("hts,shd->thd", weights / weights.sum(-1, keepdims=True), v).reshape(len(x), D)
        return read @ self.w[f"{name}_Wo"] + self.w[f"{name}_bo"]

    def recur(self, x: Array, name: str) -> Array:
        c, outputs = np.zeros(D), []
        for y in x:
            forget = 1 / (1 + np.exp(-(y @ self.w[f"{name}_Wf"] + self.w[f"{name}_bf"][0])))
            c = forget * c + (1 - forget) * (y @ self.w[f"{name}_W"])
            outputs.append(np.maximum(c, 0))
        return np.stack(outputs)

    def feed_forward(self, x: Array, name: str) -> Array:
        inner = x @ self.w[f"{name}_W1"] + self.w[f"{name}_b1"]
        is_relu = self.options["transformer-ffn-activation"] == "relu"
        return (np.maximum(inner, 0) if is_relu else inner / (1 + np.exp(-inner))) @ self.w[f"{name}_W2"] + self.w[
            f"{name}_b2"
        ]

    def embed(self, vectors: Array, side: str) -> Array:
        angle = np.arange(len(vectors))[:, None] * np.exp(-np.arange(D // 2) * np.log(10000) / (D // 2 - 1))
        x = vectors * np.sqrt(D) + np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
        return self.norm(x, f"{side}_emb_ln", "_pre") if self.options["transformer-postprocess-emb"] == "nd" else x

    def layer(self, x: Array, here: str, memory: Array | None) -> Array:
        causal = memory is not None
        if causal and self.options.get("transformer-decoder-autoreg") == "rnn":
            x = self.residual(x, here + ("rnn_ln" if self.pre else "rnn_ffn_ln"), lambda y: self.recur(y, f"{here}rnn"))
        else:
            x = self.residual(x, f"{here}self_Wo_ln", lambda y: self.attend(y, y, f"{here}self", causal=causal))
        if memory is not None:
            x = self.residual(
                x, f"{here}context_Wo_ln", lambda y: self.attend(y, memory, f"{here}context", causal=False)
            )
        return self.residual(x, f"{here}ffn_ffn_ln", lambda y: self.feed_forward(y, f"{here}ffn"))

    def log_probs(self, src: list[int], tgt: list[int]) -> Array:
        """[T, V] after each token of the target, from before the first"""
        shared = self.w.get("Wemb")
        source, target = (self.w.get(f"{side}_Wemb", shared) for side in ("encoder", "decoder"))
        assert source is not None
        assert target is not None
        memory = self.layer(self.embed(source[src], "encoder"), "encoder_l1_", None)
        memory = self.norm(memory, "encoder_top_ln", "") if self.pre else memory
        x = self.embed(np.concatenate([np.zeros((1, D)), target[tgt]]), "decoder")
        for layer in self.options.get("transformer-tied-layers") or (1, 2):
            x = self.layer(x, f"decoder_l{layer}_", memory)
        x = self.norm(x, "decoder_top_ln", "") if self.pre else x
        out = self.w.get("decoder_ff_logit_out_Wt", target)
        out = self.w["decoder_ff_logit_out_W"].T if "decoder_ff_logit_out_W" in self.w else out
        logits = x @ out.T + self.w.get("decoder_ff_logit_out_b", 0)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def written(options: dict[str, Any], path: Path, tensors: dict[str, Array]) -> Path:
    text = yaml.safe_dump({key: value for key, value in options.items() if key != "test"}).encode()
    text += b"\0" * (-len(text) % 256)  # as Marian pads it
    np.savez(path, **tensors, **{"special:model.yml": np.frombuffer(text, np.int8)})
    return path
