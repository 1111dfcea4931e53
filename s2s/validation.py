"""How a run is judged while it trains: loss on the development set, and scores of decoded outputs."""

from __future__ import annotations

__all__ = ["Validation", "Verdict"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from s2s.batch import make_batch
from s2s.config import Config
from s2s.data.batching import in_order
from s2s.data.corpus import Corpus
from s2s.distributed import World
from s2s.errors import ConfigError, did_you_mean
from s2s.generator import Generator
from s2s.metrics import Metric
from s2s.model import Seq2Seq
from s2s.nn.loss import Loss
from s2s.task import Example, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s2s.metrics import Score


@dataclass(frozen=True)
class Verdict:
    """What a validation found."""

    values: dict[str, float]
    """nll and ppl per target symbol, and each score under its name"""
    signatures: dict[str, str]
    """How each score came about"""
    goodness: float
    """The value of valid.best, negated where less is better"""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Judges the model as it is now."""

    config: Config
    task: Task
    model: Seq2Seq
    loss: Loss
    corpora: Sequence[Corpus]
    metrics: Sequence[Metric]
    generator: Generator
    world: World

    def __post_init__(self) -> None:
        known = ["nll", *(metric.name for metric in self.metrics if self.config.valid.score)]
        best = self.config.valid.best
        if best not in known:
            raise ConfigError(f"valid.best={best} is not among what is measured.{did_you_mean(best, known)}")

    def __bool__(self) -> bool:
        """Whether there is a development set."""
        return bool(self.corpora)

    def __call__(self) -> Verdict:
        """Loss and scores; the model is left in the mode it was in."""
        nll = self.nll()
        values, signatures = {"nll": nll, "ppl": math.exp(min(nll, 100))}, {}
        goodness = {"nll": -nll}
        for score in self.scores():
            values[score.name] = score.value
            signatures[score.name] = score.signature
            goodness[score.name] = score.value if score.higher_is_better else -score.value
        return Verdict(values, signatures, goodness[self.config.valid.best])

    @torch.inference_mode()
    def nll(self) -> float:
        """Mean negative log-likelihood of a target symbol, in nats, without dropout and label smoothing."""
        training = self.model.training
        self.model.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        for index, pairs in enumerate(self._batches()):
            if index % self.world.size == self.world.rank:
                batch = make_batch(pairs, self.task.vocab).to(self.world.device)
                sums += torch.tensor([self.loss(self.model, batch).nll.item(), batch.n_tokens])
        self.model.train(training)
        total, count = self.world.sum_scalars(sums.to(self.world.device)).tolist()
        return total / count

    def scores(self) -> list[Score]:
        """Every metric on the first valid.sentences sentences, decoded as s2s-generate would."""
        if not self.config.valid.score or not self.metrics:
            return []
        examples = list(islice(self._examples(), self.config.valid.sentences or None))
        hyps = [output.hyp for output in self.generator(example.src for example in examples)]
        refs = [[example.tgt for example in examples]]
        return [metric(hyps, refs) for metric in self.metrics]

    def _batches(self) -> Iterator[Any]:
        for corpus in self.corpora:
            yield from in_order(corpus, self.config.train.micro_tokens or self.config.train.tokens)

    def _examples(self) -> Iterator[Example]:
        for name, _ in self.task.corpora("valid"):
            yield from (e for e in self.task.examples("valid", name) if isinstance(e, Example))
