"""Labels of source words, such as parts of speech, learnt from the encoder's states in addition to the objective.

Shapes: B sentences, S source tokens, W words of the longest, M width of the encoder's states.
"""

from __future__ import annotations

__all__ = ["WordLabels"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from s2s.errors import ConfigError
from s2s.nn.linear import Linear
from s2s.nn.words import SourceWords
from s2s.objective import Auxiliary, Mean

if TYPE_CHECKING:
    from s2s.task import Vocab

NO_LABEL = -1


class WordLabels(nn.Module):
    """A softmax over `Vocab.labels` for each word; `weight` times the cross-entropies is added to the objective's sum.

    The methods of an architecture that is a `HasAuxiliary` call those of the same names here. Words without a label
    are ignored.
    """

    auxiliary = ("label_nll", "label_accuracy")

    def __init__(self, vocab: Vocab, d_memory: int, weight: float) -> None:
        super().__init__()
        if not vocab.labels:
            raise ConfigError(
                f"arch.label_loss={weight:g}: this task gives no labels of source words; give arch.label_loss=0"
            )
        self.weight, self.words = weight, SourceWords(vocab)
        self.map = Linear(d_memory, len(vocab.labels))
        self._passes: list[tuple[Tensor, Tensor]] | None = None
        """Logits and labels of the words of each pass, [N, L] and [N]; None: not recorded"""

    def read(self, hidden: Tensor, src: Tensor, pad: Tensor) -> None:
        """The encoder's states [B, W, M] of a source; src, pad [B, S]. Only recorded passes in training mode count."""
        if self._passes is not None and self.training:
            labels = self.words.labels(src, pad).flatten()
            labelled = (labels != NO_LABEL).nonzero()[:, 0]
            states = hidden.flatten(0, 1).index_select(0, labelled.to(hidden.device))
            self._passes.append((self.map(states), labels[labelled].to(hidden.device)))

    def record_auxiliary(self) -> None:
        """Record passes from now on."""
        self._passes = []

    def take_auxiliary(self) -> Auxiliary:
        """The loss of the recorded passes, and for the log its mean and the share of correct labels."""
        passes, self._passes = self._passes or [], None
        zero = torch.zeros((), device=self.map.weight.device)
        nll = sum((F.cross_entropy(logits.float(), labels, reduction="sum") for logits, labels in passes), zero)
        right = sum(((logits.argmax(-1) == labels).sum() for logits, labels in passes), zero)
        n = sum(len(labels) for _, labels in passes)
        return Auxiliary(self.weight * nll, {"label_nll": Mean(nll.detach(), n), "label_accuracy": Mean(right, n)})
