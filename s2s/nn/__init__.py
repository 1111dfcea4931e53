"""Parts of models, and the label-smoothed objective. Importing this package does not import torch; its modules do."""

from __future__ import annotations

__all__ = [
    "KERNELS",
    "TABLES",
    "CachedAttention",
    "CrossAttention",
    "Dropout",
    "Embeddings",
    "Guidance",
    "Guided",
    "Heads",
    "KVCacheState",
    "KeysValues",
    "LabelSmoothed",
    "LabelSmoothedConfig",
    "Layout",
    "Linear",
    "PaddedLayout",
    "PaddedLayoutWithWeights",
    "Positions",
    "Projections",
    "SelfAttention",
    "Sinusoids",
    "SourceWords",
    "VarlenLayout",
    "WordDropout",
    "WordLabels",
    "empty_kv_cache",
    "must_be_called",
    "recording_weights",
    "sum_over_chunks",
    "target_log_probs",
]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from s2s.config.ranges import SHARE, at_least, check_ranges
from s2s.lazy import lazy_names
from s2s.plugin import hookimpl
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from s2s.nn.attention import (
        KERNELS,
        CrossAttention,
        Heads,
        KeysValues,
        Layout,
        PaddedLayout,
        PaddedLayoutWithWeights,
        SelfAttention,
        recording_weights,
    )
    from s2s.nn.chunked_loss import Positions, sum_over_chunks
    from s2s.nn.dropout import Dropout, WordDropout
    from s2s.nn.embedding import TABLES, Embeddings, Sinusoids
    from s2s.nn.guidance import Guidance, Guided
    from s2s.nn.kv_cache import CachedAttention, KVCacheState, empty_kv_cache
    from s2s.nn.linear import Linear, Projections, must_be_called
    from s2s.nn.loss import LabelSmoothed, target_log_probs
    from s2s.nn.varlen import VarlenLayout
    from s2s.nn.word_labels import WordLabels
    from s2s.nn.words import SourceWords


@dataclass(kw_only=True)
class LabelSmoothedConfig(Choice):
    """Cross-entropy against the right token with some probability moved to the others (section 5.4)."""

    eps: float = 0.1
    """Probability that is moved away from the right token; 0 is plain cross-entropy."""
    definition: Literal["others", "uniform", "t2t"] = "others"
    """others: eps / (V - 1) on each wrong token. uniform: eps / V on every token. t2t: others, minus
    the entropy of the smoothed labels, so that the minimum loss is 0, as in the authors' released code."""
    chunk: int | None = None
    """Target positions whose logits are held at a time. null: 256 on a CPU, 512 in bf16, else 1024; 0: all of them."""

    def __post_init__(self) -> None:
        check_ranges("objective", self, eps=SHARE, chunk=at_least(0))


@hookimpl
def s2s_register(registry: Registry) -> None:
    registry.objective("label_smoothed", LabelSmoothedConfig, "s2s.nn.loss:label_smoothed")


__getattr__ = lazy_names(
    __name__,
    "linear",
    "dropout",
    "chunked_loss",
    "embedding",
    "attention",
    "kv_cache",
    "varlen",
    "loss",
    "guidance",
    "words",
    "word_labels",
)
