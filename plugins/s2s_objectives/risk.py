"""Minimum risk training (Shen et al., 2016).

Shapes: B sentences, K outputs of the sentence that has most, M outputs in all, T target length.
"""

from __future__ import annotations

__all__ = ["Risk"]

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from s2s import Context, Mean, Objective, Sums, make_batch, rows_without_eos
from s2s.nn import target_log_probs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s2s import Batch, Seq2Seq
    from s2s_objectives import RiskConfig

Outputs = list[list[list[int]]]
"""Target ids of the outputs of each sentence"""


class Risk(Objective):
    """Sum over sentences of the expected cost of their outputs: sum_y Q(y) cost(y), Q(y) ~ p(y | x) ** alpha.

    Q is normalised over the different outputs drawn, and the reference; the gradient is that of Q alone (eq. 12).
    """

    extras = ("score", "outputs")

    def __init__(self, config: RiskConfig, context: Context) -> None:
        self.config, self.context = config, context
        self.decode = context.search(config.search, "objective.search")
        self.metric = context.metric(config.metric, "objective.metric")

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """Extras: score, the mean of the metric over the outputs drawn; outputs, different ones per sentence."""
        references = rows_without_eos(batch.tgt_out, batch.tgt_pad)
        drawn = self.decode(model, batch, self.config.n)
        scores = self.scores(batch, drawn, references)
        if self.config.reference:
            outputs = distinct([[reference, *of] for reference, of in zip(references, drawn, strict=True)])
        else:
            outputs = distinct(of or [reference] for of, reference in zip(drawn, references, strict=True))
        costs = self.costs(self.scores(batch, outputs, references))
        log_probs = self.log_probs(model, batch, outputs).split([len(of) for of in outputs])
        loss = expected_cost(log_probs, costs, self.config.alpha)
        every_score = [score for of in scores for score in of]
        n_outputs = sum(map(len, outputs))
        return Sums(loss, len(outputs), {"score": Mean(sum(every_score), len(every_score)), "outputs": n_outputs})

    def scores(self, batch: Batch, outputs: Outputs, references: list[list[int]]) -> list[list[float]]:
        """The metric of each output against its sentence's reference."""
        refs = [ref for (ref,) in self.context.texts(batch, [[reference] for reference in references])]
        texts = self.context.texts(batch, outputs)
        pairs = [(text, ref) for of, ref in zip(texts, refs, strict=True) for text in of]
        flat = iter(self.metric([text for text, _ in pairs], [ref for _, ref in pairs]) if pairs else [])
        return [[next(flat) for _ in of] for of in texts]

    def costs(self, scores: list[list[float]]) -> list[Tensor]:
        """Of each output of each sentence; 0 is perfect."""
        of_score = (lambda x: 1 - x) if self.metric.higher_is_better else (lambda x: x)
        return [torch.tensor([of_score(score / self.config.scale) for score in of]) for of in scores]

    def log_probs(self, model: Seq2Seq, batch: Batch, outputs: Outputs) -> Tensor:
        """log p(y | x) of each output of each sentence, with a gradient: [M]; each source is encoded once."""
        pairs: list[tuple[list[int], list[int]]] = [([], output) for of in outputs for output in of]
        targets = make_batch(pairs, self.context.vocab).to(batch.src.device)
        n_outputs = torch.tensor([len(of) for of in outputs], device=batch.src.device)
        sentence = torch.arange(len(outputs), device=batch.src.device).repeat_interleave(n_outputs)  # [M]
        memory = model.encode(batch.src, batch.src_pad).keep(sentence)
        hidden = model.decode(targets.tgt_in, memory)  # [M, T, ·]
        return target_log_probs(model, targets, self.config.chunk, hidden).sum(-1)


def distinct(outputs: Iterable[list[list[int]]]) -> Outputs:
    """Each sentence's outputs without repetitions, in their order."""
    return [[list(ids) for ids in dict.fromkeys(map(tuple, of))] for of in outputs]


def expected_cost(log_probs: tuple[Tensor, ...], costs: list[Tensor], alpha: float) -> Tensor:
    """Sum over sentences of softmax(alpha * log p) . cost; each of a sentence's outputs."""
    scores = pad_sequence([alpha * log_p for log_p in log_probs], batch_first=True, padding_value=-torch.inf)  # [B, K]
    cost = pad_sequence(costs, batch_first=True).to(scores)
    return (scores.softmax(-1) * cost).sum()
