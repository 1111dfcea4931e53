"""Minimum risk training (Shen et al., 2016).

Shapes: B sentences, K maximum number of outputs of a sentence.
"""

from __future__ import annotations

__all__ = ["Risk"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from s2s import Sums
from s2s_objectives import RiskConfig
from s2s_objectives.sequences import SequenceObjective, distinct

if TYPE_CHECKING:
    from s2s import Batch, Seq2Seq


class Risk(SequenceObjective[RiskConfig]):
    """Sum over sentences of the expected cost of their outputs: sum_y Q(y) cost(y), Q(y) ~ p(y | x) ** alpha.

    Q is normalised over the distinct sampled outputs and the reference; only Q has a gradient (eq. 12).
    """

    extras = ("score", "outputs")

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: score, the mean of the metric over the sampled outputs; outputs, distinct ones per sentence."""
        samples = self.draw(model, batch)
        if self.config.reference:
            outputs = samples.beside_references()
        else:
            pairs = zip(samples.outputs, samples.references, strict=True)
            outputs = distinct(of or [reference] for of, reference in pairs)
        costs = self.costs(self.scores(batch, outputs, samples.references))
        log_probs = self.log_probs(model, batch, outputs).split([len(of) for of in outputs])
        loss = expected_cost(log_probs, costs, self.config.alpha)
        return Sums(loss, len(outputs), {"score": samples.mean_score, "outputs": sum(map(len, outputs))})

    def costs(self, scores: list[list[float]]) -> list[Tensor]:
        """The cost of each output of each sentence; 0 is perfect."""
        cost = (lambda x: 1 - x) if self.metric.higher_is_better else (lambda x: x)
        return [torch.tensor([cost(score / self.config.scale) for score in of]) for of in scores]


def expected_cost(log_probs: tuple[Tensor, ...], costs: list[Tensor], alpha: float) -> Tensor:
    """Sum over sentences of softmax(alpha * log p) . cost, over the outputs of each sentence."""
    scores = pad_sequence([alpha * log_p for log_p in log_probs], batch_first=True, padding_value=-torch.inf)  # [B, K]
    cost = pad_sequence(costs, batch_first=True).to(scores)
    return (scores.softmax(-1) * cost).sum()
