"""The Transformer against its equations, written out position by position in float64."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from s2s import Vocab
from s2s.batch import make_batch
from s2s.errors import ConfigError
from s2s_transformer import TransformerConfig
from s2s_transformer.model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

VOCAB = Vocab(src=17, tgt=17, joint=True)
PAIRS = [([4, 5, 6, 7], [8, 9, 10]), ([11], [12, 13, 14, 15, 16]), ([5, 5, 8], [4])]
Vectors = list[Tensor]


def tiny(**changes: object) -> TransformerConfig:
    sizes = {"n_encoder_layers": 2, "n_decoder_layers": 2, "d_model": 8, "d_ff": 12, "n_heads": 2}
    return TransformerConfig(**{**sizes, "dropout": 0.0, **changes})  # type: ignore[arg-type]


def build(config: TransformerConfig) -> Transformer:
    """A model whose every weight is random, norms and biases too: a forgotten one shows."""
    torch.manual_seed(1)
    model = Transformer(config, VOCAB)
    for name, weight in model.named_parameters():
        if "norm" in name or "bias" in name:
            nn.init.normal_(weight, mean=float("norm.weight" in name), std=0.3)
    return model.eval()


class Equations:
    """Sections 3.1 to 3.5, one sentence and one vector at a time, with the weights of a model."""

    def __init__(self, model: Transformer, config: TransformerConfig) -> None:
        self.w = {name: p.detach().double() for name, p in model.named_parameters()}
        self.c = config
        self.d_k = config.d_k or config.d_model // config.n_heads
        self.d_v = config.d_v or config.d_model // config.n_heads
        self.weights: dict[tuple[str, int], Tensor] = {}
        """Of each sub-layer's heads, the last query's"""

    def log_probs(self, src: list[int], tgt: list[int]) -> Tensor:
        """[T, V] after each prefix of `tgt`, from that prefix alone: so that nothing can look ahead."""
        memory = self.encode([*src, VOCAB.eos])
        return torch.stack([self.decode(tgt[: t + 1], memory).log_softmax(-1) for t in range(len(tgt))])

    def encode(self, src: list[int]) -> Vectors:
        xs = self.embed(src, "src")
        for i in range(self.c.n_encoder_layers):
            at = f"encoder.{i}."
            xs = self.around(at + "attention_residual", xs, partial(self.self_attention, at + "attention"))
            xs = self.around(at + "feed_forward_residual", xs, partial(self.feed_forward, at + "feed_forward"))
        return self.last_norm("encoder_norm", xs)

    def decode(self, tgt: list[int], memory: Vectors) -> Tensor:
        """Logits [V] after the last symbol of `tgt`."""
        xs = self.embed(tgt, "tgt")
        for i in range(self.c.n_decoder_layers):
            at = f"decoder.{i}."
            xs = self.around(at + "attention_residual", xs, partial(self.causal_attention, at + "attention"))
            cross = partial(self.cross_attention, at + "cross_attention", memory)
            xs = self.around(at + "cross_attention_residual", xs, cross)
            xs = self.around(at + "feed_forward_residual", xs, partial(self.feed_forward, at + "feed_forward"))
        softmax = {"shared": "shared", "target": "tgt", "none": "softmax"}[self.c.share_embeddings]
        return self.w[f"embeddings.{softmax}"] @ self.last_norm("decoder_norm", xs)[-1]

    def embed(self, ids: list[int], side: str) -> Vectors:
        table = self.w["embeddings." + ("shared" if self.c.share_embeddings == "shared" else side)]
        return [table[i] * math.sqrt(self.c.d_model) + self.position(p, side) for p, i in enumerate(ids)]

    def position(self, p: int, side: str) -> Tensor:
        """Section 3.5: PE(p, 2i) = sin(p / 10000^(2i / d)), PE(p, 2i + 1) = cos(p / 10000^(2i / d))."""
        if self.c.positions == "none":
            return torch.zeros(self.c.d_model).double()
        if self.c.positions == "learned":
            return self.w[f"{side}_positions.weight"][p] * math.sqrt(self.c.d_model)
        angles = [p / 10_000 ** (2 * i / self.c.d_model) for i in range(self.c.d_model // 2)]
        return torch.tensor([f(angle) for angle in angles for f in (math.sin, math.cos)]).double()

    def around(self, at: str, xs: Vectors, sublayer: Callable[[Vectors], Vectors]) -> Vectors:
        if self.c.norm == "pre":
            return [x + y for x, y in zip(xs, sublayer(self.norm(at + ".norm", xs)), strict=True)]
        return self.norm(at + ".norm", [x + y for x, y in zip(xs, sublayer(xs), strict=True)])

    def last_norm(self, at: str, xs: Vectors) -> Vectors:
        return self.norm(at, xs) if self.c.norm == "pre" else xs

    def norm(self, at: str, xs: Vectors) -> Vectors:
        gain, shift = self.w[at + ".weight"], self.w[at + ".bias"]
        return [gain * (x - x.mean()) / math.sqrt(x.var(correction=0) + 1e-6) + shift for x in xs]

    def linear(self, at: str, xs: Vectors, part: slice = slice(None)) -> Vectors:
        return [self.w[at + ".weight"][part] @ x + self.w[at + ".bias"][part] for x in xs]

    def feed_forward(self, at: str, xs: Vectors) -> Vectors:
        return self.linear(at + ".out", [self.activation(x) for x in self.linear(at + ".inner", xs)])

    def activation(self, x: Tensor) -> Tensor:
        """max(0, x), or x times the probability that a standard normal variable is below it."""
        return x.clamp(min=0) if self.c.activation == "relu" else x * (1 + torch.erf(x / math.sqrt(2))) / 2

    def self_attention(self, at: str, xs: Vectors) -> Vectors:
        n_k = self.c.n_heads * self.d_k
        parts = slice(0, n_k), slice(n_k, 2 * n_k), slice(2 * n_k, None)
        return self.attend(at, *(self.linear(at + ".qkv", xs, part) for part in parts))

    def causal_attention(self, at: str, xs: Vectors) -> Vectors:
        return [self.self_attention(at, xs[: t + 1])[-1] for t in range(len(xs))]

    def cross_attention(self, at: str, memory: Vectors, xs: Vectors) -> Vectors:
        n_k = self.c.n_heads * self.d_k
        keys, values = (self.linear(at + ".kv", memory, part) for part in (slice(0, n_k), slice(n_k, None)))
        return self.attend(at, self.linear(at + ".q", xs), keys, values)

    def attend(self, at: str, queries: Vectors, keys: Vectors, values: Vectors) -> Vectors:
        heads = [[self.head(at, h, query, keys, values) for h in range(self.c.n_heads)] for query in queries]
        return self.linear(at + ".out", [torch.cat(parts) for parts in heads])

    def head(self, at: str, h: int, query: Tensor, keys: Vectors, values: Vectors) -> Tensor:
        k, v = slice(h * self.d_k, (h + 1) * self.d_k), slice(h * self.d_v, (h + 1) * self.d_v)
        scores = torch.stack([query[k] @ key[k] / math.sqrt(self.d_k) for key in keys])
        self.weights[at, h] = scores.softmax(0)
        return torch.stack([w * value[v] for w, value in zip(self.weights[at, h], values, strict=True)]).sum(0)


@pytest.mark.parametrize("attention", ["sdpa", "math"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre"},
        {"d_k": 3, "d_v": 5},
        {"positions": "learned", "share_embeddings": "none"},
        {"positions": "none", "share_embeddings": "target", "activation": "gelu"},
    ],
    ids=["the paper's", "pre-norm", "free head widths", "learned positions, three matrices", "no positions, gelu"],
)
def test_a_padded_batch_gives_what_the_equations_give_for_each_sentence(
    changes: dict[str, object], attention: str
) -> None:
    config = tiny(**changes, attention=attention)
    model = build(config)
    batch = make_batch(PAIRS, VOCAB)
    with torch.no_grad():
        log_probs = model.project(model(batch.src, batch.src_pad, batch.tgt_in)).log_softmax(-1)
    for row, (src, tgt) in zip(log_probs, PAIRS, strict=True):
        expected = Equations(model, config).log_probs(src, [VOCAB.bos, *tgt])
        assert torch.allclose(row[: len(tgt) + 1].double(), expected, atol=2e-5)


def test_cached_steps_in_float64_are_the_equations_of_each_prefix() -> None:
    config = tiny()
    model = build(config)
    expected = Equations(model, config).log_probs(PAIRS[0][0], [VOCAB.bos, *PAIRS[0][1]])
    model.double()
    batch = make_batch(PAIRS[:1], VOCAB)
    state = model.start(model.encode(batch.src, batch.src_pad))
    for t, log_probs in enumerate(expected):
        logits, state = model.step(batch.tgt_in[:, t : t + 1], state)
        assert torch.allclose(logits[0, 0].log_softmax(-1), log_probs, atol=1e-12)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("layer", "number"), [(None, 1), (2, 1), (3, 2)], ids=["penultimate", "second", "last"])
def test_attention_is_the_mean_of_a_layers_heads(norm: str, layer: int | None, number: int) -> None:
    config = tiny(norm=norm, n_decoder_layers=3, d_k=3)
    model = build(config)
    batch = make_batch(PAIRS, VOCAB)
    with torch.no_grad():
        found = model.attention(batch.src, batch.src_pad, batch.tgt_in, layer)
    for rows, (src, tgt) in zip(found, PAIRS, strict=True):
        equations = Equations(model, config)
        memory = equations.encode([*src, VOCAB.eos])
        for t in range(len(tgt) + 1):
            equations.decode([VOCAB.bos, *tgt][: t + 1], memory)
            heads = [equations.weights[f"decoder.{number}.cross_attention", h] for h in range(config.n_heads)]
            assert torch.allclose(rows[t, : len(src) + 1].double(), sum(heads) / len(heads), atol=1e-6)


@pytest.mark.parametrize("layer", [0, 3])
def test_a_layer_that_is_not_there_is_refused(layer: int) -> None:
    batch = make_batch(PAIRS, VOCAB)
    with pytest.raises(ConfigError, match=f"attention_layer={layer}: the decoder has 2, numbered from 1"):
        build(tiny()).attention(batch.src, batch.src_pad, batch.tgt_in, layer)
