"""Recurrent encoder-decoders, from Sutskever et al. (2014) to GNMT, as a plugin; docs/families/recurrent.md."""

from __future__ import annotations

__all__ = ["RNNConfig", "s2s_register"]

from dataclasses import dataclass
from typing import Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.config import SHARE, above, at_least, check_ranges


@dataclass(kw_only=True)
class RNNConfig(Choice):
    """A recurrent encoder, a recurrent decoder, and attention between them or none."""

    cell: Literal["lstm", "gru"] = "lstm"
    """Recurrence of every layer."""
    d_model: int = 512
    """Width of a layer's state, in each direction."""
    d_embedding: int | None = None
    """Width of embeddings; null: d_model."""
    d_projection: int | None = None
    """Width to which an LSTM's output is projected before it is passed on (Sak et al., 2014); null: not projected."""
    d_factor: int | None = None
    """F-LSTM: the maps to the gates are factorised through this width (Kuchaiev and Ginsburg, 2017); null: one map."""
    n_groups: int = 1
    """G-LSTM: the maps to the gates are split into this many independent groups (Kuchaiev and Ginsburg, 2017)."""
    n_encoder_layers: int = 2
    """Layers of the encoder."""
    n_decoder_layers: int = 2
    """Layers of the decoder."""
    directions: Literal["forward", "bidirectional", "first", "interleaved"] = "first"
    """How the encoder reads. forward: all layers left to right. bidirectional: all layers both ways. first: the first
    layer both ways, the others left to right. interleaved: two columns, whose layers alternate in direction, one
    beginning left to right, the other right to left."""
    reverse_source: bool = False
    """Read the source from its end: every direction of the encoder is swapped."""
    attention: Literal["none", "additive", "dot", "general", "scaled"] = "general"
    """Score of a source position. additive: v tanh(W q + U m). dot: q m. general: q W m. scaled: q m / sqrt(width)."""
    d_attention: int | None = None
    """Inner width of additive attention; null: d_model."""
    attention_from: Literal["first", "top"] = "top"
    """first: the first decoder layer's previous output is the query, and the context is an input to the layers.
    top: the top layer's output is the query, and the context goes to the readout."""
    context_to: Literal["first", "all"] = "first"
    """With attention_from=first: the decoder layers that read the context."""
    input_feeding: bool = False
    """With attention_from=top: the decoder reads its last readout together with the last token (Luong et al., 2015)."""
    readout: Literal["none", "tanh", "maxout"] = "tanh"
    """Input of the softmax. none: the top layer's output, and the context if attention_from=top. tanh: tanh(W of both).
    maxout: of previous state, last token and context (Bahdanau et al., 2015), for one decoder layer."""
    d_readout: int | None = None
    """Width of a tanh or maxout readout; null: d_model."""
    start: Literal["zero", "final", "tanh"] = "zero"
    """The decoder's first state. final: that of the encoder's layers at their last token, layer by layer. tanh:
    tanh(W h) for each layer, where h is the last encoder layer's, of its backward direction if it has two."""
    residual_from: int = 0
    """Layers from this one on add their input to their output; 0: none."""
    fast_forward: bool = False
    """Layers also pass on the linear map of their input, before recurrence (Zhou et al., 2016)."""
    guide: Literal["none", "words", "stack"] = "none"
    """What the decoder reads about its current position in the source, if the task has a guide: the encoder's outputs
    at the next and the last word (words), or everything that the guide provides (stack). It is added before the first
    layer and, in a tanh layer of its own, before the softmax."""
    words: Literal["tokens", "pooled"] = "tokens"
    """tokens: one encoder position per source token. pooled: one per word, whose vector is the embedding of its first
    token plus those of the others, divided by the square root of their number."""
    label_loss: float = 0.0
    """Weight of the cross-entropy of source words' labels, such as parts of speech, predicted from the encoder's
    output, relative to that of target tokens; for a task that labels words."""
    dropout: float = 0.1
    """On embeddings and on each layer's output, but not on recurrent connections (Zaremba et al., 2014)."""
    src_word_dropout: float = 0.0
    """Share of the source tokens, or pooled words, whose embedding is zero in training."""
    tgt_word_dropout: float = 0.0
    """The same for the tokens that the decoder reads."""
    init: Literal["uniform", "bahdanau"] = "uniform"
    """Initial weights. uniform: all from -init_range to init_range. bahdanau: orthogonal recurrence, N(0, 0.001) in
    attention, N(0, 0.01) elsewhere, biases 0 (appendix B.1)."""
    init_range: float = 0.1
    """Bound of the initial weights with init=uniform."""

    def __post_init__(self) -> None:
        widths = ("d_model", "d_embedding", "d_projection", "d_factor", "n_groups", "d_attention", "d_readout")
        sizes = (*widths, "n_encoder_layers", "n_decoder_layers")
        check_ranges("arch", self, **dict.fromkeys(sizes, at_least(1)), residual_from=at_least(0))
        check_ranges("arch", self, label_loss=at_least(0))
        shares = ("dropout", "src_word_dropout", "tgt_word_dropout")
        check_ranges("arch", self, **dict.fromkeys(shares, SHARE), init_range=above(0))
        for wrong, why in (*self._of_cells(), *self._of_attention()):
            if wrong:
                raise ConfigError(why)

    def _of_cells(self) -> list[tuple[bool, str]]:
        """Invalid options of layers: whether each is given, and its error message."""
        plain = self.d_projection is None and self.d_factor is None and self.n_groups == 1
        alone, unequal = self.directions in ("forward", "interleaved"), self.n_encoder_layers != self.n_decoder_layers
        layers = f"n_encoder_layers={self.n_encoder_layers} and n_decoder_layers={self.n_decoder_layers}"
        return [
            (self.cell == "gru" and not plain, "arch.d_projection, d_factor and n_groups are for arch.cell=lstm"),
            (bool(self.d_factor) and self.n_groups > 1, "arch.d_factor and arch.n_groups exclude each other"),
            (bool(self.d_factor) and self.fast_forward, "arch.d_factor and arch.fast_forward exclude each other"),
            (
                bool(self.residual_from) and self.fast_forward,
                "arch.residual_from and arch.fast_forward exclude each other",
            ),
            (
                self.fast_forward and not alone,
                f"arch.fast_forward=true needs layers of one direction, not arch.directions={self.directions}; give "
                "forward or interleaved",
            ),
            (
                self.start == "final" and (unequal or self.directions != "forward"),
                f"arch.start=final gives each decoder layer the state of the encoder layer of its number, so {layers} "
                f"must be equal, and arch.directions={self.directions} be forward; or give arch.start=tanh",
            ),
        ]

    def _of_attention(self) -> list[tuple[bool, str]]:
        """The same for attention and readout."""
        attends = self.attention != "none"
        first, top = (attends and self.attention_from == name for name in ("first", "top"))
        return [
            (
                not attends and self.start == "zero" and self.guide == "none",
                "arch.attention=none and arch.start=zero: the decoder would see nothing of the source; give "
                "arch.start=final or tanh, or an attention",
            ),
            (
                self.label_loss > 0 and self.words == "tokens",
                "arch.label_loss is of words, not of arch.words=tokens; give arch.words=pooled",
            ),
            (self.input_feeding and not top, "arch.input_feeding=true needs attention with arch.attention_from=top"),
            (
                self.readout == "tanh" and not top,
                "arch.readout=tanh reads a context: it needs attention with arch.attention_from=top; give "
                "arch.readout=none",
            ),
            (self.context_to == "all" and not first, "arch.context_to=all needs arch.attention_from=first"),
            (
                self.readout == "maxout" and (not first or self.n_decoder_layers > 1),
                "arch.readout=maxout needs attention with arch.attention_from=first, and one decoder layer",
            ),
        ]


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.arch("rnn", RNNConfig, "s2s_recurrent.model:RNN")
