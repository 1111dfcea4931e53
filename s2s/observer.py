"""Following a run: the events that an observer receives, and what it may use of the trainer.

The parts of a `TrainerView` are protocols: they list what plugins may rely on, with its types. Everything is
read-only, except `length`, which an observer may change on all ranks after the same update, to end the run sooner or
later.
"""

from __future__ import annotations

__all__ = ["Observer", "TrainerView"]

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import nn

    from s2s.config import Config
    from s2s.model import Seq2Seq
    from s2s.objective import Objective
    from s2s.task import Example
    from s2s.vocab import Vocab

    Sentence = Sequence[int] | NDArray[Any]

T = TypeVar("T")


class Observer:
    """Follows one run; made by `s2s_observe`, it overrides the methods that it needs.

    Every process of a run makes one, and gets the same records. One that changes what happens next, such as when the
    run ends, returns its state from `state_dict`: a resumed run then continues as if it had never been interrupted.
    """

    @property
    def key(self) -> str:
        """The name of its state in checkpoints; two observers with a state must have different ones."""
        return type(self).__qualname__

    def state_dict(self) -> Mapping[str, Any]:
        """What a checkpoint keeps of it: tensors, numbers, text, None, and lists, tuples and dicts of these.

        Called on every rank, after `updated` and `validated` for the newest update; rank 0's is saved.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned, tensors on the CPU; before the first event, on every rank.

        Not called in a new run, or if the checkpoint has no state of this observer.

        state: as `state_dict` returned it.
        """

    def is_due(self, step: int) -> bool:
        """Whether `updated` must be called for update `step` before the next update begins, for which the host waits
        for an accelerator; by default, if it is overridden. Otherwise it is called some updates later.
        """
        return type(self).updated is not Observer.updated

    def updated(self, record: Mapping[str, Any]) -> None:
        """After every update, with its values; of updates that no observer needed at once, one after the other.

        record: what the log has of the update or validation, such as step, loss and tokens.
        """

    def validated(self, record: Mapping[str, Any]) -> None:
        """After every validation, with its scores."""

    def saved(self, path: Path, seconds: float) -> None:
        """When a checkpoint is verified on disk, `seconds` after it was begun; in the process that wrote it.

        path: the checkpoint's folder. seconds: what it took from its beginning.
        """

    def finished(self, summary: Mapping[str, Any]) -> None:
        """After the last update, validation and checkpoint, in the reverse order of observers.

        summary: the last record of the log.
        """

    def close(self, error: BaseException | None) -> None:
        """Last of all; error: what ended training, if anything, such as `Preempted` for a run that can be resumed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(error)


class Ranks(Protocol):
    """The processes of a run, as seen from one of them; an `s2s.distributed.World`."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def device(self) -> torch.device: ...

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and prints."""

    def any_true(self, flag: bool) -> bool:
        """Whether the flag is true on any rank; all of them must call it."""

    def all_gather(self, value: T) -> list[T]:
        """The values of all ranks, in rank order; they must be JSON-serialisable."""


class Progress(Protocol):
    """How far a run is, as its checkpoints keep it."""

    step: int
    """Updates done"""
    epoch: int
    n_tokens: int
    """Target tokens trained on"""
    seconds: float
    """Time spent in updates"""
    n_stale: int
    """Validations since the best one"""
    best: list[tuple[float, int]]
    """(criterion, step) of the best validations, best first; a larger criterion is better"""


class TrainStepView(Protocol):
    """What makes an update."""

    vocab: Vocab
    model: Seq2Seq
    """As the strategy distributes it: a rank may hold only a shard of each parameter"""
    objective: Objective
    optimizer: torch.optim.Optimizer
    parameters: list[nn.Parameter]
    """Those that are trained"""


class Corpus(Protocol):
    """Pairs of ids."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> tuple[Sentence, Sentence]:
        """Ids of source and target of a pair, without eos."""

    def lengths(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target lengths of rows [n] -> [n], [n], without eos."""


class Batches(Protocol):
    """The order of the data."""

    @property
    def corpora(self) -> Sequence[Corpus]:
        """The encoded training corpora"""


class DataLoaderView(Protocol):
    """Where batches come from."""

    @property
    def batches(self) -> Batches: ...


class ValidationView(Protocol):
    """Validation; false if there is no development set."""

    def __bool__(self) -> bool: ...
    @property
    def corpora(self) -> Sequence[Corpus]: ...

    @property
    def examples(self) -> Sequence[Example]:
        """Those that are decoded and scored"""


class Checkpoints(Protocol):
    """Where a run is saved."""

    @property
    def folder(self) -> Path: ...


class RunLog(Protocol):
    """The log of a run; an `s2s.log.Log`."""

    def is_due(self, step: int) -> bool:
        """Whether an update is shown: every log.every-th, and the last."""

    def info(self, text: str, indent: int = 0) -> None:
        """A line for the screen and train.log."""

    def warn(self, text: str) -> None:
        """A warning on standard error and in the log, once."""

    def records(self, kind: str) -> Iterator[dict[str, Any]]:
        """All records of one kind, such as update and valid, oldest first, those before a resume included."""

    def tolerating_full_disk(self) -> AbstractContextManager[None]:
        """Inside the block, a full disk is a warning, not an error."""


class LengthView(Protocol):
    """How far a run goes."""

    n_steps: int
    """Number of the last update: train.steps, unless an observer has moved it"""
    began: float
    """When the command began, by the monotonic clock"""

    def move(self, step: int, n_steps: int) -> None:
        """Let the run end after update `n_steps`, as decided after update `step`; on all ranks."""


class TrainerView(Protocol):
    """What plugins may use of the trainer that calls them."""

    config: Config
    directory: Path
    """Of the run"""

    @property
    def world(self) -> Ranks: ...
    @property
    def state(self) -> Progress: ...
    @property
    def train_step(self) -> TrainStepView: ...
    @property
    def data_loader(self) -> DataLoaderView: ...
    @property
    def validation(self) -> ValidationView: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def log(self) -> RunLog: ...
    @property
    def length(self) -> LengthView: ...
