"""Validation during training: likelihood of the development set and metrics of decoded outputs."""

from __future__ import annotations

__all__ = ["Validation", "ValidationResult", "dev_examples"]

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from s2s.batch import make_batch
from s2s.config import Config
from s2s.data.batching import in_order
from s2s.data.mapped_corpus import MappedCorpus
from s2s.distributed import World
from s2s.errors import ConfigError, did_you_mean
from s2s.generation.generator import Generator
from s2s.metrics import Metric
from s2s.model import Seq2Seq, evaluating
from s2s.nn.loss import Loss
from s2s.task import Example, Task

if TYPE_CHECKING:
    from s2s.metrics import Score
    from s2s.training.signals import StopSignal

T = TypeVar("T")


@dataclass(frozen=True)
class ValidationResult:
    """Values of one validation."""

    values: dict[str, float]
    """nll and ppl per target token, and each metric under its name"""
    signatures: dict[str, str]
    """Signature of each metric"""
    criterion: float
    """The value of valid.best, negated where less is better; -inf where it is no number"""
    search: str
    """How outputs were decoded, such as "beam 4"; empty if none were"""

    def record(self) -> dict[str, Any]:
        """The record for the log."""
        return {**self.values, "search": self.search, "signatures": self.signatures}


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Validates the model's current weights; the ranks share the work and get the same result."""

    config: Config
    task: Task
    model: Seq2Seq
    loss: Loss
    corpora: Sequence[MappedCorpus]
    examples: Sequence[Example]
    """Examples to decode and score"""
    metrics: Sequence[Metric]
    generator: Generator
    world: World

    def __post_init__(self) -> None:
        known = ["nll", *(metric.name for metric in self.metrics if self.config.valid.score)]
        best = self.config.valid.best
        if best not in known:
            raise ConfigError(f"valid.best={best} is not among the values of validation.{did_you_mean(best, known)}")
        patience, of = self.config.valid.patience, self.config.train.average_of
        if not self.corpora and (patience or of == "best"):
            option = f"valid.patience={patience}" if patience else "train.average_of=best"
            raise ConfigError(f"{option} needs a development set, and task={self.task.config.name} has none")

    def __bool__(self) -> bool:
        """Whether there is a development set."""
        return bool(self.corpora)

    def __call__(self, stop: StopSignal) -> ValidationResult | None:
        """All values, or None if a signal interrupted it; the model's training mode is restored."""
        nll = self.nll(stop)
        scores = None if nll is None else self.scores(stop)
        if nll is None or scores is None:
            return None
        values, signatures = {"nll": nll, "ppl": math.exp(min(nll, 100))}, {}
        criterion = {"nll": -nll}
        for score in scores:
            values[score.name] = score.value
            signatures[score.name] = score.signature
            criterion[score.name] = score.value if score.higher_is_better else -score.value
        best = criterion[self.config.valid.best]
        best = -math.inf if math.isnan(best) else best
        return ValidationResult(values, signatures, best, self._search() if scores else "")

    def nll(self, stop: StopSignal) -> float | None:
        """Negative log-likelihood per target token, in nats, without dropout and label smoothing."""
        sums = self._on_all_ranks(stop, self._local_nll)
        if sums is None:
            return None
        return sum(nll for nll, _ in sums) / sum(n_tokens for _, n_tokens in sums)

    def scores(self, stop: StopSignal) -> list[Score] | None:
        """Every metric on the first valid.sentences sentences, decoded as s2s-generate would."""
        if not self.config.valid.score or not self.metrics:
            return []
        parts = self._on_all_ranks(stop, self._local_hyps)
        if parts is None:
            return None
        hyps = [""] * len(self.examples)
        for rank, part in enumerate(parts):
            hyps[rank :: self.world.size] = part
        refs = [[example.tgt for example in self.examples]]
        return [metric(hyps, refs) for metric in self.metrics]

    def _search(self) -> str:
        search = self.config.search
        return f"{search.name} {getattr(search, 'beam', '')}".rstrip()

    def _on_all_ranks(self, stop: StopSignal, work: Callable[[], T]) -> list[T] | None:
        """The result of `work` on every rank; None on all of them if a signal interrupted any."""
        parts = self.world.all_gather(stop.interruptible(work))
        done = [part for part in parts if part is not None]
        return done if len(done) == len(parts) else None

    @torch.inference_mode()
    def _local_nll(self) -> tuple[float, int]:
        """Sums over this rank's share: negative log-likelihood, and target tokens."""
        tokens = self.config.train.micro_tokens or self.config.train.n_tokens
        batches = chain.from_iterable(in_order(corpus, tokens) for corpus in self.corpora)
        nll, n_tokens = 0.0, 0
        # A compiled model may be compiled for the one shape of training's batches.
        with evaluating(self.model), torch.compiler.set_stance("force_eager"):
            for pairs in islice(batches, self.world.rank, None, self.world.size):
                batch = make_batch(pairs, self.task.vocab).to(self.world.device)
                nll += self.loss(self.model, batch).nll.item()
                n_tokens += batch.n_tokens
        return nll, n_tokens

    def _local_hyps(self) -> list[str]:
        """Outputs for this rank's share of the examples."""
        own = self.examples[self.world.rank :: self.world.size]
        return [output.hyp for output in self.generator(example.src for example in own)]


def dev_examples(task: Task, config: Config) -> list[Example]:
    """The examples that validation decodes, read before the first update: a missing file is reported at once."""
    if not config.valid.score:
        return []
    names = (name for name, _ in task.corpora("valid"))
    pairs = (pair for name in names for pair in task.examples("valid", name) if isinstance(pair, Example))
    return list(islice(pairs, config.valid.sentences or None))
