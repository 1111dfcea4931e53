"""Any architecture, with some of its position-wise modules replaced by mixtures of experts.

Shapes: B sentences, K hypotheses, S source length, T target length.
"""

from __future__ import annotations

__all__ = ["Mixture"]

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from s2s import ConfigError, Memory, Seq2Seq
from s2s_moe.layer import MixtureLayer, auxiliary_names, n_gate_weights, take_auxiliary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor, nn

    from s2s import AttentionMap, Auxiliary, Side, State, Vocab
    from s2s_moe import MixtureConfig


class Mixture(Seq2Seq):
    """A model of the inner architecture; its experts are the same module of several separately initialised models.

    Everything else is delegated to the inner model: encode, decode, its state, attention, the rows of its vocabulary.
    """

    def __init__(self, config: MixtureConfig, vocab: Vocab, build: Callable[[], Seq2Seq]) -> None:
        super().__init__()
        self.config, self.pad = config, vocab.pad
        self.inner = build()
        self.max_len, self.returns_log_probs = self.inner.max_len, self.inner.returns_log_probs
        names = {"encoder": matching(self.inner, config.encoder), "decoder": matching(self.inner, config.decoder)}
        chosen = {side: side_names[config.every - 1 :: config.every] for side, side_names in names.items()}
        check(config, chosen)
        others = [build() for _ in range(config.n_experts - 1)]
        for name in (name for side_names in chosen.values() for name in side_names):
            experts = [model.get_submodule(name) for model in (self.inner, *others)]
            self.inner.set_submodule(name, MixtureLayer(config, config.d_model, experts))
        self._names, self.auxiliary = chosen, auxiliary_names(config)

    def encode(self, src: Tensor, pad: Tensor) -> Memory:
        """src, pad [B, S]"""
        self._begin("encoder", pad)
        return self.inner.encode(src, pad)

    def decode(self, tgt: Tensor, memory: Memory) -> Tensor:
        """tgt [B, T] -> [B, T, ·]"""
        self._begin("decoder", tgt == self.pad)
        return self.inner.decode(tgt, memory)

    def project(self, hidden: Tensor) -> Tensor:
        """[..., ·] -> logits [..., V]"""
        return self.inner.project(hidden)

    def start(self, memory: Memory) -> State:
        """The inner model's."""
        return self.inner.start(memory)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """token [B, K] -> logits [B, K, V]"""
        return self.inner.step(token, state)

    def attention(self, src: Tensor, pad: Tensor, tgt: Tensor, layer: int | None = None) -> Tensor | None:
        """src, pad [B, S], tgt [B, T] -> [B, T, S]"""
        return self.inner.attention(src, pad, tgt, layer)

    def attention_maps(self, src: Tensor, pad: Tensor, tgt: Tensor) -> Sequence[AttentionMap]:
        """The inner model's."""
        return self.inner.attention_maps(src, pad, tgt)

    def vocab_rows(self) -> dict[str, Side] | None:
        """The inner model's."""
        rows = self.inner.vocab_rows()
        return None if rows is None else {f"inner.{name}": side for name, side in rows.items()}

    def forward_operations(self, src: Sequence[int], tgt: Sequence[int]) -> float | None:
        """The inner model's operations with the active experts, plus the gates; None if that gives no count."""
        inner = self.inner.forward_operations(src, tgt)
        if inner is None:
            return None
        n_tokens = {"encoder": sum(src), "decoder": sum(tgt)}
        return inner + sum(n_tokens[side] * self._more(layer) for side in n_tokens for layer in self._layers(side))

    def record_auxiliary(self) -> None:
        """Record the use of experts; see `s2s.HasAuxiliary`."""
        for layer in self._every_layer():
            layer.uses = []

    def take_auxiliary(self) -> Auxiliary:
        """The balance losses; see `s2s.HasAuxiliary`."""
        return take_auxiliary(self._every_layer(), next(self.parameters()).device)

    def _more(self, layer: MixtureLayer) -> int:
        """Operations per token beyond those of one expert."""
        expert = sum(p.numel() for p in layer.experts[0].parameters() if p.dim() == 2)
        return 2 * ((self.config.n_active - 1) * expert + n_gate_weights(self.config, self.config.d_model))

    def _begin(self, side: str, pad: Tensor) -> None:
        """Prepare the layers of one side for a pass: which positions count."""
        for layer in self._layers(side):
            layer.begin(pad)

    def _every_layer(self) -> list[MixtureLayer]:
        return [*self._layers("encoder"), *self._layers("decoder")]

    def _layers(self, side: str) -> list[MixtureLayer]:
        return [self.inner.get_submodule(name) for name in self._names[side]]  # type: ignore[misc]  # see __init__


def matching(model: nn.Module, pattern: str) -> list[str]:
    """Names of the matching modules, in the model's order."""
    return [name for name, _ in model.named_modules() if name and fnmatchcase(name, pattern)]


def check(config: MixtureConfig, chosen: dict[str, list[str]]) -> None:
    """Raise ConfigError if a pattern matches nothing."""
    for side, names in chosen.items():
        pattern = getattr(config, side)
        if pattern and not names:
            raise ConfigError(
                f"arch.{side}={pattern}: with arch.every={config.every}, no module of arch.of.name={config.of['name']} "
                "matches; give the pattern of others, fewer between them, or an empty one"
            )
    if not any(chosen.values()):
        raise ConfigError("arch.encoder and arch.decoder are both empty: nothing would be a mixture")
