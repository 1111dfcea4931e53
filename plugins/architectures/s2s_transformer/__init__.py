"""The Transformer of "Attention Is All You Need", as a plugin."""

from __future__ import annotations

__all__ = ["TransformerConfig", "s2s_register"]

from dataclasses import dataclass
from typing import Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import SHARE, at_least, check_ranges

FORMATS = {
    "ctranslate2": "ctranslate2:CTranslate2",
    "marian": "marian:Marian",
    "marian_npz": "marian_npz:MarianNpz",
    "m2m_100": "huggingface:M2M100",
    "bart": "huggingface:Bart",
    "mbart": "huggingface:MBart",
    "t5": "t5:T5",
    "fairseq": "fairseq:Fairseq",
}


@dataclass(kw_only=True)
class TransformerConfig(Choice):
    """The base model of Table 3; sections and tables are the paper's."""

    n_encoder_layers: int = 6
    """Layers of the encoder (N)."""
    n_decoder_layers: int = 6
    """Layers of the decoder (N)."""
    d_model: int = 512
    """Width of embeddings and of every layer's output."""
    d_ff: int = 2048
    """Inner width of the feed-forward sub-layer."""
    n_heads: int = 8
    """Attention heads (h)."""
    n_kv_heads: int | None = None
    """Heads of keys and values, each shared by as many heads of queries (Ainslie et al., 2023); null: n_heads."""
    d_k: int | None = None
    """Width of a query and key per head; null: d_model / n_heads."""
    d_v: int | None = None
    """Width of a value per head; null: d_model / n_heads."""
    dropout: float = 0.1
    """On each sub-layer's output before the sum, and on embedding plus position (section 5.4)."""
    attention_dropout: float = 0.0
    """On attention weights; not in the paper."""
    relu_dropout: float = 0.0
    """On the inner activations of the feed-forward sub-layer; not in the paper."""
    src_word_dropout: float = 0.0
    """Share of the source tokens whose embedding is zero in training; not in the paper."""
    tgt_word_dropout: float = 0.0
    """The same for the tokens that the decoder reads."""
    decoder_layer_drop: float = 0.0
    """Share of the decoder's layers that are skipped in an update; not in the paper."""
    norm: Literal["post", "pre"] = "post"
    """post: LayerNorm(x + Sublayer(x)), the paper's. pre: x + Sublayer(LayerNorm(x)), with one more norm at the end."""
    norm_eps: float = 1e-6
    """Added to the variance in layer normalisation."""
    norm_kind: Literal["layer", "rms"] = "layer"
    """layer: layer normalisation, the paper's. rms: by the root mean square only (Zhang and Sennrich, 2019)."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    """Non-linearity of the feed-forward sub-layer. gelu_tanh approximates gelu with a tanh, as T5 does."""
    gated: bool = False
    """The feed-forward sub-layer is f(x W) * (x V) before its second map (Shazeer, 2020); d_ff is the width of each."""
    bias: bool = True
    """Linear maps in the layers add a bias; T5's do not."""
    guide: Literal["none", "words", "stack"] = "none"
    """What the decoder reads about its current position in the source, if the task has a guide: the encoder's outputs
    at the next and the last word (words), or everything that the guide provides (stack). It is added to the input and,
    in a tanh layer of its own, before the softmax. Not in the paper."""
    cross_attention: Literal["soft", "none"] = "soft"
    """none: the decoder sees nothing of the source but what the guide provides."""
    alignment_layer: int | None = None
    """Decoder layer, from 1, whose attention to the source aligns words; null: the last but one, which aligns best
    (Garg et al., 2019), of two layers the last."""
    alignment_heads: int | None = None
    """How many of its heads are averaged for that, the first ones; null: all. objective=guided_alignment trains them,
    in the paper 1."""
    words: Literal["tokens", "pooled"] = "tokens"
    """tokens: one encoder position per source token. pooled: one per word, whose vector is the embedding of its first
    token plus those of the others, divided by the square root of their number."""
    label_loss: float = 0.0
    """Weight of the cross-entropy of source words' labels, such as parts of speech, predicted from the encoder's
    output, relative to that of target tokens; for a task that labels words. Not in the paper."""
    positions: Literal["sinusoid", "sinusoid_t2t", "learned", "rotary", "relative", "relative_bias", "none"] = (
        "sinusoid"
    )
    """sinusoid: section 3.5. sinusoid_t2t: the released code's wavelengths, all sines before all cosines.
    learned: row E of Table 3. rotary: queries and keys of self-attention are rotated by position (Su et al., 2021).
    relative: keys and values of self-attention depend on the distance (Shaw et al., 2018). relative_bias: a number for
    each head and distance is added to the scores of self-attention, the same in all layers (T5; Raffel et al., 2020);
    training then takes padded batches only. none: no positions."""
    relative_distance: int = 16
    """Largest distance that has vectors of its own with positions=relative; larger ones share the last ones."""
    bias_buckets: int = 32
    """Distances with numbers of their own with positions=relative_bias, at first each, then ever wider ranges; in the
    encoder half of them for each direction."""
    bias_distance: int = 128
    """Distance from which all share the last of them."""
    max_positions: int = 256
    """Longest sentence with positions=learned, eos included; sinusoids have no limit."""
    position_offset: int = 0
    """Position of the first token, with sinusoids or positions=learned; BART, M2M-100 and NLLB begin at 2."""
    scale_positions: bool = True
    """With positions=learned and scale_embeddings, multiply positions by sqrt(d_model), too; mBART does not."""
    embedding_norm: bool = False
    """Normalise the sum of embedding and position, as BART and mBART do."""
    share_embeddings: Literal["shared", "target", "inputs", "none"] = "shared"
    """shared: source, target and softmax are one matrix (section 3.4), which needs a joint vocabulary. target: target
    and softmax are one. inputs: source and target are one, as in T5 1.1, also with a joint vocabulary. none: three
    matrices."""
    scale_embeddings: bool = True
    """Multiply embeddings by sqrt(d_model) (section 3.4)."""
    scale_output: bool = False
    """Divide the decoder's output by sqrt(d_model) before the softmax, as T5 1.0 does."""
    zero_start: bool = False
    """The decoder reads a zero vector, plus its position, in place of the first token's embedding, as Marian's does."""
    output_bias: bool = False
    """Add a bias to the logits; not in the paper."""
    attention_score: Literal["scaled_dot", "dot", "additive"] = "scaled_dot"
    """scaled_dot: q k / sqrt(d_k), the paper's. dot: q k. additive: u tanh(q + k) (Bahdanau et al., 2015), which takes
    d_k times the memory. Section 3.2.1 compares them."""
    self_attention: Literal["full", "restricted"] = "full"
    """restricted: a position attends only to its neighbourhood (section 4), in time linear in the length."""
    decoder_self_attention: Literal["attention", "ssru"] = "attention"
    """ssru: the decoder has a simple recurrent unit with one vector as its state in place of self-attention (Kim et
    al., 2019), which Marian's students have."""
    neighbourhood: int = 15
    """Positions of a neighbourhood, itself in the middle (r of Table 1); the decoder attends to none after it."""
    attention: Literal["auto", "sdpa", "math"] = "auto"
    """Kernel of attention. sdpa: torch's fused ones. math: plain products. auto: sdpa; on a CPU in
    training s2s's own, one for short sentences and one that holds few weights of long ones at once."""

    def __post_init__(self) -> None:
        sizes = ("n_encoder_layers", "n_decoder_layers", "d_model", "d_ff", "n_heads", "n_kv_heads", "d_k", "d_v")
        lengths = ("max_positions", "relative_distance")
        check_ranges("arch", self, **dict.fromkeys((*sizes, *lengths), at_least(1)))
        check_ranges("arch", self, position_offset=at_least(0), bias_buckets=at_least(4))
        values = ("dropout", "attention_dropout", "relu_dropout")
        words_and_layers = ("src_word_dropout", "tgt_word_dropout", "decoder_layer_drop")
        check_ranges("arch", self, **dict.fromkeys((*values, *words_and_layers), SHARE), norm_eps=at_least(0))
        check_ranges("arch", self, label_loss=at_least(0))
        if self.label_loss and self.words == "tokens":
            raise ConfigError("arch.label_loss is of words, not of arch.words=tokens; give arch.words=pooled")
        check_ranges("arch", self, neighbourhood=at_least(1))
        if self.positions == "rotary":
            self._check_rotary()
        if self.positions == "relative_bias":
            self._check_relative_bias()
        for name, most in (("alignment_layer", "n_decoder_layers"), ("alignment_heads", "n_heads")):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= getattr(self, most):
                raise ConfigError(f"arch.{name}={value} must be from 1 to arch.{most}={getattr(self, most)}")
        if self.n_kv_heads and self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"arch.n_heads={self.n_heads} must be a multiple of arch.n_kv_heads={self.n_kv_heads}, whose heads are "
                "shared by equally many"
            )
        if self.neighbourhood % 2 == 0:
            raise ConfigError(f"arch.neighbourhood={self.neighbourhood} has no middle; give an odd number")
        if self.cross_attention == "none" and self.guide == "none":
            raise ConfigError(
                "arch.cross_attention=none and arch.guide=none: the decoder would see nothing of the source; give "
                "arch.guide=stack, or arch.cross_attention=soft"
            )
        if None in (self.d_k, self.d_v) and self.d_model % self.n_heads:
            raise ConfigError(
                f"arch.d_model={self.d_model} must be a multiple of arch.n_heads={self.n_heads}, "
                "or arch.d_k and arch.d_v be given"
            )
        if self.positions.startswith("sinusoid") and self.d_model % 2:
            raise ConfigError(
                f"arch.d_model={self.d_model} must be even to hold sines and cosines; or give arch.positions=learned"
            )

    def _check_relative_bias(self) -> None:
        if self.bias_buckets % 2 or self.bias_distance <= self.bias_buckets // 2:
            raise ConfigError(
                f"arch.bias_buckets={self.bias_buckets} must be even, and arch.bias_distance={self.bias_distance} more "
                "than half of it"
            )
        if self.self_attention == "restricted":
            raise ConfigError("arch.positions=relative_bias and arch.self_attention=restricted exclude each other")

    def _check_rotary(self) -> None:
        if (self.d_k or self.d_model // self.n_heads) % 2:
            raise ConfigError("arch.positions=rotary rotates pairs of values: the width of a query (d_k) must be even")
        for name, value in (("self_attention", "restricted"), ("attention_score", "additive")):
            if getattr(self, name) == value:
                raise ConfigError(f"arch.positions=rotary and arch.{name}={value} exclude each other")


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.arch("transformer", TransformerConfig, "s2s_transformer.model:Transformer")
    for name, factory in FORMATS.items():
        registry.add("foreign_format", f"transformer.{name}", Choice, f"s2s_transformer.{factory}")
