"""The contract of an objective: what training minimises.

An objective returns SUMS over a micro-batch and its own normaliser. Training minimises the sum over the global batch
divided by the normaliser of the global batch, so that the gradient does not depend on how the batch is split over
micro-batches and ranks.
"""

from __future__ import annotations

__all__ = [
    "Auxiliary",
    "Context",
    "Decode",
    "HasAuxiliary",
    "Mean",
    "Objective",
    "SentenceMetric",
    "Sums",
    "WithAuxiliary",
    "rows_without_eos",
]

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from s2s.backend.device_types import device_of
from s2s.errors import PluginError
from s2s.tensors import host_copy

if TYPE_CHECKING:
    from s2s.batch import Batch
    from s2s.model import Seq2Seq
    from s2s.task import Task, Vocab


@dataclass(frozen=True)
class Mean:
    """A value to log that has a normaliser of its own: total / count, each summed over the global batch."""

    total: Tensor | float
    count: Tensor | float


@dataclass(frozen=True)
class Sums:
    """The result of an objective on one micro-batch; all values are sums, never means."""

    loss: Tensor
    """[], with a gradient; in nats where it is a cross-entropy"""
    normaliser: Tensor | float
    """What `loss` is divided by once it is summed over the global batch: target tokens, sentences, …"""
    extras: Mapping[str, Tensor | float | Mean] = field(default_factory=dict)
    """Values to log, by the names in `Objective.extras`: sums that are divided by `normaliser`, or a `Mean`"""

    def stack(self, names: Sequence[str]) -> Tensor:
        """[2 + 2 n] in the widest type, without a gradient: loss and normaliser, then total and count of each extra."""
        if set(self.extras) != set(names):
            raise PluginError(
                f"the objective returned the extras {sorted(self.extras)}, and its attribute `extras` declares "
                f"{sorted(names)}: they must be equal"
            )
        extras = [self.extras[name] for name in names]
        pairs = [x if isinstance(x, Mean) else Mean(x, self.normaliser) for x in extras]
        named = [("loss", self.loss), ("normaliser", self.normaliser)]
        for name, pair in zip(names, pairs, strict=True):
            named += [(name, pair.total), (name, pair.count)]
        return torch.stack([_scalar(name, x, self.loss.device) for name, x in named])


class Objective(ABC):
    """What is minimised: a function of the model and a micro-batch, with no state but parameters.

    Random numbers come from torch's global generator, which is seeded from (seed, step, micro-batch) before each call:
    a resumed run, or one with another number of ranks, draws the same numbers.

    An objective with parameters of its own, such as a critic, is an nn.Module: `class PPO(nn.Module, Objective)`, whose
    `forward` takes what `__call__` does here. Its parameters are trained by the run's optimizer, clipped with those of
    the model by one norm, kept in every checkpoint, and shared by the ranks as those of the model are. A moving average
    (train.ema) and a mean of checkpoints (train.average) are of the model alone.
    """

    extras: Sequence[str] = ()
    """Names of the extra sums, in the order of the log line; all ranks need them before the first call"""
    valid_extras: Sequence[str] | None = None
    """Those of `extras` that validation computes on the development set, without dropout; None: all of them"""
    supports_packing: bool = False
    """Whether it accepts packed batches: it then calls `model(*batch.inputs)`, and tensors are [N] instead of [B, T]"""
    supports_cuda_graph: bool = False
    """Whether a call may be captured in a CUDA graph: no synchronisation with the host, no control flow that depends on
    values, and a normaliser that is a tensor"""
    n_updates: int = 1
    """Updates of each batch, one after the other, as in proximal policy optimization: `rollout` is called once for all
    of them. They are one step of the run: its schedule, log, checkpoints and number of updates count batches"""

    @property
    def module(self) -> nn.Module | None:
        """The objective as a module, if it has parameters."""
        return self if isinstance(self, nn.Module) else None

    def rollout(self, model: Seq2Seq, batch: Batch) -> Batch:
        """What `__call__` is given in all updates of a micro-batch: the batch, or one with samples in a subclass.

        Called without recording gradients, in training with the model in training mode, in validation in evaluation
        mode. It is called once for all updates, and once more if memory runs out in one of them: the batch is divided
        further then, and the samples are those of the model as it is.
        """
        return batch

    @abstractmethod
    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """The sums over a micro-batch, or over what `rollout` made of it, on its device. The model or its parts may be
        run several times: `encode` once for many targets, say, with its result repeated by `Memory.select`.

        In training, `model` is in training mode and one backward pass through `Sums.loss` follows; in validation, no
        gradient is recorded and dropout is off.
        """


@dataclass(frozen=True)
class Auxiliary:
    """What a model adds to any objective: sums over all positions that its passes computed."""

    loss: Tensor
    """[], with a gradient; added to `Sums.loss`, and so divided by the objective's normaliser"""
    extras: Mapping[str, Mean]
    """Values to log"""


@runtime_checkable
class HasAuxiliary(Protocol):
    """An architecture with losses of its own, such as those that balance a mixture of experts."""

    auxiliary: Sequence[str]
    """Names of `Auxiliary.extras`"""

    def record_auxiliary(self) -> None:
        """Start recording passes in training mode."""

    def take_auxiliary(self) -> Auxiliary:
        """The sums over the recorded passes, which are then discarded; recording ends.

        So that an update does not depend on how its batch is split, `loss` must be a sum over sentences, each computed
        independently of the others.
        """


class WithAuxiliary(Objective):
    """An objective on a model that adds losses of its own in training; validation uses the objective alone."""

    def __init__(self, objective: Objective, model: HasAuxiliary) -> None:
        self.objective, self.model = objective, model
        extras = objective.extras if objective.valid_extras is None else objective.valid_extras
        self.extras, self.valid_extras = (*objective.extras, *model.auxiliary), tuple(extras)
        self.supports_packing, self.n_updates = objective.supports_packing, objective.n_updates

    @property
    def module(self) -> nn.Module | None:
        """That of the objective."""
        return self.objective.module

    def rollout(self, model: Seq2Seq, batch: Batch) -> Batch:
        """That of the objective."""
        return self.objective.rollout(model, batch)

    def __call__(self, model: Seq2Seq, batch: Batch) -> Sums:
        """The objective's sums, with the model's added."""
        self.model.record_auxiliary()
        sums = self.objective(model, batch)
        added = self.model.take_auxiliary()
        return replace(sums, loss=sums.loss + added.loss, extras={**sums.extras, **added.extras})


class Decode(Protocol):
    """A registered search applied to the model that is being trained."""

    def __call__(self, model: Seq2Seq, batch: Batch, nbest: int = 1) -> list[list[list[int]]]:
        """At most `nbest` outputs of each source of a padded batch, best first: target ids without bos and eos.

        Runs without dropout and without a gradient, under the task's constraint. A search with an option `seed` gets
        one from torch's global generator, so that each update draws new samples.
        """


class SentenceMetric(Protocol):
    """A registered metric applied to each sentence."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score is better."""

    def __call__(self, hyps: Sequence[str], refs: Sequence[str]) -> list[float]:
        """The score of each output against its one reference, on the metric's own scale (0 to 100 for BLEU)."""


class Context(ABC):
    """What the factory of an objective may use besides its config.

    `search` and `metric` take a registered name, or a mapping with `name` and options, such as
    {name: sample, temperature: 0.8}; `option` is the config key that errors name.
    """

    task: Task
    seed: int
    device: torch.device

    @property
    def vocab(self) -> Vocab:
        """The task's vocabulary."""
        return self.task.vocab

    @abstractmethod
    def search(self, spec: Any, option: str) -> Decode:
        """A registered search."""

    @abstractmethod
    def metric(self, spec: Any, option: str) -> SentenceMetric:
        """A registered metric."""

    @abstractmethod
    def load_run(self, name: str, option: str) -> Seq2Seq:
        """The model of another run, frozen, on this device and in evaluation mode, such as a teacher.

        Raises ConfigError unless both runs have the same vocabulary. Its weights are not saved with this run: a resumed
        run reads the same checkpoint again, and raises ConfigError if it is gone or has changed.
        name: as in `s2s-generate run=`, optionally with @checkpoint. option: the config key that errors name.
        """

    def texts(self, batch: Batch, outputs: Sequence[Sequence[Sequence[int]]]) -> list[list[str]]:
        """The text of each output of each source of a padded batch, for metrics."""
        sources = [self.task.source_text(ids) for ids in rows_without_eos(batch.src, batch.src_pad)]
        detokenize = self.task.detokenize
        return [[detokenize(ids, src) for ids in ids_of] for src, ids_of in zip(sources, outputs, strict=True)]


def rows_without_eos(ids: Tensor, pad: Tensor) -> list[list[int]]:
    """ids, pad [B, T], each row ending in eos beside its padding -> B lists of ids without eos."""
    none = -1
    rows = host_copy(ids).masked_fill(host_copy(pad), none).tolist()
    return [[i for i in row if i != none][:-1] for row in rows]


def _scalar(name: str, x: Tensor | float, device: torch.device) -> Tensor:
    if isinstance(x, Tensor) and not x.ndim:
        return x.detach().to(device, device_of(device).wide_dtype)
    if not isinstance(x, int | float):
        actual = f"a tensor {list(x.shape)}" if isinstance(x, Tensor) else repr(x)
        raise PluginError(f"the objective returned as {name} {actual}: expected one number, a sum over the micro-batch")
    return torch.full((), x, dtype=device_of(device).wide_dtype, device=device)
