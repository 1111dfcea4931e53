"""The common part of sequence-level objectives: sampled outputs, their scores, and their log-probabilities.

Shapes: B sentences, M outputs in total, T target length.
"""

from __future__ import annotations

__all__ = ["Outputs", "SampledOutputs", "SequenceObjective", "distinct"]

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import torch

from s2s import Context, Mean, Objective, make_batch, rows_without_eos
from s2s.nn import target_log_probs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from s2s import Batch, Seq2Seq
    from s2s_objectives import GnmtRlConfig, RiskConfig

Outputs = list[list[list[int]]]
"""Target ids of the outputs of each sentence"""
C = TypeVar("C", bound="RiskConfig | GnmtRlConfig")


class SampledOutputs(NamedTuple):
    """Sampled outputs of each sentence of a batch, including duplicates."""

    outputs: Outputs
    references: list[list[int]]
    """The reference of each sentence, without eos"""
    scores: list[list[float]]
    """The metric of each output against its sentence's reference"""

    @property
    def mean_score(self) -> Mean:
        """The mean score over all outputs, for the log."""
        scores = [score for of in self.scores for score in of]
        return Mean(sum(scores), len(scores))

    def beside_references(self) -> Outputs:
        """The distinct outputs of each sentence, preceded by its reference."""
        return distinct([[reference, *of] for reference, of in zip(self.references, self.outputs, strict=True)])


class SequenceObjective(Objective, Generic[C]):
    """Base class of objectives that sample outputs from the model and score them by a metric."""

    def __init__(self, config: C, context: Context) -> None:
        self.config, self.context = config, context
        self.decode = context.search(config.search, "objective.search")
        self.metric = context.metric(config.metric, "objective.metric")

    def draw(self, model: Seq2Seq, batch: Batch) -> SampledOutputs:
        """Sample `n` outputs of each sentence, and score them."""
        references = rows_without_eos(batch.tgt_out, batch.tgt_pad)
        outputs = self.decode(model, batch, self.config.n)
        return SampledOutputs(outputs, references, self.scores(batch, outputs, references))

    def scores(self, batch: Batch, outputs: Outputs, references: list[list[int]]) -> list[list[float]]:
        """The metric of each output against its sentence's reference."""
        refs = [ref for (ref,) in self.context.texts(batch, [[reference] for reference in references])]
        texts = self.context.texts(batch, outputs)
        pairs = [(text, ref) for of, ref in zip(texts, refs, strict=True) for text in of]
        flat = iter(self.metric([text for text, _ in pairs], [ref for _, ref in pairs]) if pairs else [])
        return [[next(flat) for _ in of] for of in texts]

    def log_probs(self, model: Seq2Seq, batch: Batch, outputs: Outputs) -> Tensor:
        """log p(y | x) of each output of each sentence, with a gradient: [M]; each source is encoded once."""
        pairs: list[tuple[list[int], list[int]]] = [([], output) for of in outputs for output in of]
        targets = make_batch(pairs, self.context.vocab).to(batch.src.device)
        sentence = torch.tensor([row for row, of in enumerate(outputs) for _ in of], dtype=torch.long)  # [M]
        memory = model.encode(batch.src, batch.src_pad).select(sentence)
        hidden = model.decode(targets.tgt_in, memory)  # [M, T, ·]
        return target_log_probs(model, targets, self.config.chunk, hidden).sum(-1)


def distinct(outputs: Iterable[list[list[int]]]) -> Outputs:
    """Each sentence's outputs without duplicates, in their order."""
    return [[list(ids) for ids in dict.fromkeys(map(tuple, of))] for of in outputs]
