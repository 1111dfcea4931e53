"""Validation during training: likelihood and the objective's extras on the development set, metrics of outputs."""

from __future__ import annotations

__all__ = ["Validation", "ValidationResult"]

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from s2s.batch import make_batch
from s2s.config import Config, Mark
from s2s.data.batching import validation_batches
from s2s.data.mapped_corpus import MappedCorpus
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.generation.generator import Generator
from s2s.metrics import Metric
from s2s.model import Seq2Seq, evaluating
from s2s.nn import LabelSmoothedConfig
from s2s.nn.loss import LabelSmoothed
from s2s.objective import Objective
from s2s.task import Example, Task
from s2s.training.dev_set import DevPart, losses_of, scores_of
from s2s.training.step_result import ratio, totals_and_counts

if TYPE_CHECKING:
    from s2s.batch import Batch
    from s2s.metrics import Score
    from s2s.training.signals import StopSignal

T = TypeVar("T")


@dataclass(frozen=True)
class ValidationResult:
    """Values of one validation."""

    values: dict[str, float]
    """nll and ppl per target token, the objective's extras, and each metric under its name"""
    signatures: dict[str, str]
    """Signature of each metric"""
    criterion: float
    """The value of valid.best, negated if lower is better; -inf if it is NaN"""
    search: str
    """How outputs were decoded, such as "beam 4"; empty if none were"""
    n_sentences: int = 0
    """Outputs that were scored"""
    n_all: int = 0
    """Sentences of the development set"""
    n_empty: int = 0
    """Empty outputs for references that are not"""
    length_ratio: float = 1.0
    """Characters of the outputs for one of the references"""

    def record(self) -> dict[str, Any]:
        """The record for the log."""
        counts = {"sentences": self.n_sentences, "of_sentences": self.n_all, "empty": self.n_empty}
        outputs = {**counts, "length_ratio": round(self.length_ratio, 4)} if self.search else {}
        return {**self.values, "search": self.search, **outputs, "signatures": self.signatures}


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Validates the model's current weights; the ranks share the work and get the same result."""

    config: Config
    task: Task
    model: Seq2Seq
    objective: Objective
    corpora: Sequence[MappedCorpus]
    examples: Sequence[Example]
    """Examples to decode and score"""
    metrics: Sequence[Metric]
    generator: Generator
    world: World
    parts: Sequence[DevPart] = ()
    """Of the corpora, in their order, if each has scores of its own; all values are then means over them"""

    def __post_init__(self) -> None:
        patience, of = self.config.valid.patience, self.config.train.average_of
        if not self.corpora and (patience or of == "best"):
            option = f"valid.patience={patience}" if patience else "train.average_of=best"
            raise ConfigError(f"{option} needs a development set, and task={self.task.config.name} has none")

    def __bool__(self) -> bool:
        """Whether there is a development set."""
        return bool(self.corpora)

    @property
    def basis(self) -> str:
        """Hash of what valid.best is measured on: its values can be compared if and only if this is the same."""
        if self.config.valid.best == "nll":
            measured: list[Any] = [corpus.manifest["files"] for corpus in self.corpora]
        else:
            texts = [[one.src, one.tgt, *([one.fields] if one.fields else [])] for one in self.examples]
            measured = [texts, Mark.recorded(self.config.search)]
        if self.parts:
            measured.append([[part.name, part.weight] for part in self.parts])
        return hashlib.sha256(json.dumps(measured, sort_keys=True, default=str).encode()).hexdigest()

    def __call__(self, stop: StopSignal) -> ValidationResult | None:
        """All values, or None if a signal interrupted it; the model's training mode is restored."""
        losses = self.losses(stop)
        hyps = None if losses is None else self.outputs(stop)
        if losses is None or hyps is None:
            return None
        values, signatures = {"nll": losses["nll"], "ppl": math.exp(min(losses["nll"], 100)), **losses}, {}
        criterion = {name: -x for name, x in losses.items() if name.rpartition("/")[2] == "nll"}
        scores, refs = self.scores(hyps), [example.tgt for example in self.examples[: len(hyps)]]
        for score in scores:
            values[score.name] = score.value
            signatures[score.name] = score.signature
            criterion[score.name] = score.value if score.higher_is_better else -score.value
        best = criterion.get(self.config.valid.best, math.nan)  # a corpus of which no example is decoded has no score
        best = -math.inf if math.isnan(best) else best
        return ValidationResult(
            values=values,
            signatures=signatures,
            criterion=best,
            search=self._search() if scores else "",
            n_sentences=len(hyps),
            n_all=max(sum(map(len, self.corpora)), len(hyps)),
            n_empty=sum(not hyp.strip() and bool(ref.strip()) for hyp, ref in zip(hyps, refs, strict=True)),
            length_ratio=sum(map(len, hyps)) / max(sum(map(len, refs)), 1),
        )

    def losses(self, stop: StopSignal) -> dict[str, float] | None:
        """Nll per target token, in nats, without dropout or label smoothing, and the objective's own extras."""
        sums = self._on_all_ranks(stop, self._local_sums)
        if sums is None:
            return None
        names, values = ["nll", *self._extras()], []
        for of_ranks in zip(*sums, strict=True):
            totals = [math.fsum(column) for column in zip(*of_ranks, strict=True)]
            pairs = zip(names, totals_and_counts(totals), strict=True)
            values.append({name: ratio(*pair) for name, pair in pairs})
        return losses_of(self.parts, values) if self.parts else values[0]

    def outputs(self, stop: StopSignal) -> list[str] | None:
        """Outputs for the first valid.sentences sentences, decoded as s2s-generate would; none if none are scored."""
        if not self.config.valid.score or not self.metrics:
            return []
        parts = self._on_all_ranks(stop, self._local_hyps)
        if parts is None:
            return None
        hyps = [""] * len(self.examples)
        for rank, part in enumerate(parts):
            hyps[rank :: self.world.size] = part
        return hyps

    def scores(self, hyps: Sequence[str]) -> list[Score]:
        """Every metric on the outputs; none for none."""
        refs = [example.tgt for example in self.examples]
        if not hyps or not self.parts:
            return [metric.scored(hyps, [refs]) for metric in self.metrics] if hyps else []
        return scores_of(self.parts, hyps, refs)

    def _search(self) -> str:
        search = self.config.search
        return f"{search.name} {getattr(search, 'beam', '')}".rstrip()

    def _on_all_ranks(self, stop: StopSignal, work: Callable[[], T]) -> list[T] | None:
        """The result of `work` on every rank; None on all of them if a signal interrupted any."""
        parts = self.world.all_gather(stop.interruptible(work))
        done = [part for part in parts if part is not None]
        return done if len(done) == len(parts) else None

    def _extras(self) -> list[str]:
        """The objective's extras to compute; nll is computed for every objective."""
        objective = self.objective
        names = objective.extras if objective.valid_extras is None else objective.valid_extras
        return [name for name in objective.extras if name in names and name != "nll"]

    @torch.inference_mode()
    def _local_sums(self) -> list[list[float]]:
        """This rank's sums of nll, target tokens, and total and count of each extra, of every part, or of the whole."""
        sets = [[corpus] for corpus in self.corpora] if self.parts else [self.corpora]
        # A compiled model may be specialised to the single shape of training batches.
        evaluated = evaluating(self.objective.module) if self.objective.module else nullcontext()
        with evaluating(self.model), evaluated, torch.compiler.set_stance("force_eager"):
            return [self._sums_of(corpora) for corpora in sets]

    def _sums_of(self, corpora: Sequence[MappedCorpus]) -> list[float]:
        """This rank's sums over some corpora."""
        tokens = self.config.train.n_micro_tokens or self.config.train.n_tokens
        batches = chain.from_iterable(validation_batches(corpus, tokens) for corpus in corpora)
        sums = [0.0] * (2 + 2 * len(self._extras()))
        for number, pairs in islice(enumerate(batches), self.world.rank, None, self.world.size):
            batch = make_batch(pairs, self.task.vocab).to(self.world.device)
            for i, x in enumerate(self._sums(batch, number)):
                sums[i] += x
        return sums

    def _sums(self, batch: Batch, number: int) -> list[float]:
        """The same for one batch."""
        nll = LabelSmoothed(LabelSmoothedConfig(eps=0.0)).token_sums(self.model, batch).nll.item()
        if not self._extras():
            return [nll, batch.n_tokens]
        torch.manual_seed(self.config.seed + number)  # an objective that samples draws the same in every validation
        sums = self.objective(self.model, self.objective.rollout(self.model, batch))
        values = sums.stack(self.objective.extras).tolist()[2:]
        extras = dict(zip(self.objective.extras, totals_and_counts(values), strict=True))
        return [nll, batch.n_tokens, *(x for name in self._extras() for x in extras[name])]

    def _local_hyps(self) -> list[str]:
        """Outputs for this rank's share of the examples."""
        local = self.examples[self.world.rank :: self.world.size]
        return [output.hyp for output in self.generator(local)]
