"""Recurrent neural network grammars (Dyer et al., 2016), discriminative, as a plugin; docs/families/rnng.md."""

from __future__ import annotations

__all__ = ["RNNGConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import Choice, Registry, hookimpl
from s2s.config import SHARE, at_least, check_ranges


@dataclass(kw_only=True)
class RNNGConfig(Choice):
    """A stack whose brackets become one vector when they close, the rest of the sentence, and the actions so far.

    Needs a task whose guide defines what its tokens do to a stack, such as parsing.
    """

    d_model: int = 128
    """Width of the states of stack, buffer and history."""
    d_item: int | None = None
    """Width of an item of the stack: a word, an open bracket, a closed one; null: d_model."""
    d_word: int = 32
    """Width of the learnt embeddings of words."""
    d_action: int = 16
    """Width of the embeddings of actions that the history reads."""
    n_layers: int = 2
    """Layers of every LSTM, those that compose brackets included."""
    dropout: float = 0.2
    """On the input of each LSTM's layers, and on the three states that predict an action."""

    def __post_init__(self) -> None:
        sizes = ("d_model", "d_item", "d_word", "d_action", "n_layers")
        check_ranges("arch", self, **dict.fromkeys(sizes, at_least(1)), dropout=SHARE)


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.arch("rnng", RNNGConfig, "s2s_rnng.model:RNNG")
