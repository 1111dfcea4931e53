"""s2s: a plugin-based framework for sequence-to-sequence models.

A program loads a trained run with `load`, and trains and scores with `train` and `evaluate` (docs/python.md).

A plugin may import the modules in `PUBLIC`, and from each of them the names in its `__all__`; everything else may
change without notice. The contracts are here, in `s2s` itself; what needs torch is imported when first used, so that
`import s2s` alone is quick.
"""

from __future__ import annotations

__all__ = [
    "PUBLIC",
    "AttentionMap",
    "Auxiliary",
    "Batch",
    "CheckpointError",
    "Choice",
    "ConfigError",
    "Constraint",
    "Context",
    "Corpus",
    "DataError",
    "Dependencies",
    "Effect",
    "Encoded",
    "Entry",
    "Example",
    "Guide",
    "HasAuxiliary",
    "Mean",
    "Memory",
    "Objective",
    "Observer",
    "Packing",
    "PluginError",
    "Plugins",
    "Registry",
    "Rejected",
    "Seq2Seq",
    "SequenceOffsets",
    "Side",
    "State",
    "Sums",
    "Task",
    "TokenNames",
    "TrainedModel",
    "TrainerView",
    "UserError",
    "Vocab",
    "__version__",
    "batch_by_length",
    "did_you_mean",
    "evaluate",
    "evaluating",
    "hookimpl",
    "load",
    "load_plugins",
    "make_batch",
    "plugins",
    "rows_without_eos",
    "train",
]

from typing import TYPE_CHECKING

from s2s.errors import CheckpointError, ConfigError, DataError, PluginError, UserError, did_you_mean
from s2s.lazy import lazy_names
from s2s.plugin import Observer, Plugins, TrainerView, hookimpl, load_plugins
from s2s.registry import Choice, Entry, Registry

if TYPE_CHECKING:
    from s2s.api import evaluate, load, plugins, train
    from s2s.batch import Batch, Packing, SequenceOffsets, batch_by_length, make_batch
    from s2s.corpus import Corpus
    from s2s.model import AttentionMap, Memory, Seq2Seq, State, evaluating
    from s2s.objective import (
        Auxiliary,
        Context,
        HasAuxiliary,
        Mean,
        Objective,
        Sums,
        rows_without_eos,
    )
    from s2s.task import (
        Constraint,
        Dependencies,
        Effect,
        Encoded,
        Example,
        Guide,
        Rejected,
        Side,
        Task,
        TokenNames,
        Vocab,
    )
    from s2s.trained_model import TrainedModel

PUBLIC = (
    "s2s",
    "s2s.backend",
    "s2s.checkpoint",
    "s2s.cli",
    "s2s.compose",
    "s2s.config",
    "s2s.data",
    "s2s.decoding",
    "s2s.distributed",
    "s2s.foreign",
    "s2s.generation",
    "s2s.io",
    "s2s.log",
    "s2s.metrics",
    "s2s.nn",
    "s2s.optim",
    "s2s.run",
    "s2s.tensors",
    "s2s.text",
    "s2s.training",
)
"""The modules that a plugin may import."""

__version__ = "0.1.0"

__getattr__ = lazy_names(__name__, "task", "corpus", "api", "model", "batch", "objective", "trained_model")
