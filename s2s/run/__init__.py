"""A run on disk: its directory, its lock, and loading a trained run.

runs/<name>/  config.yaml    as given                 resolved.yaml   every option; itself a valid input
              env.json       versions, plugins, …     status.json     running, done, preempted, failed
              provenance.json  options that plugins had added, so that the run can be used without them
              ledger.json    what its corpora lost: pairs read, kept, and dropped by each rule, with samples
              log.jsonl  train.log  tensorboard/      tokenizer/      as at training, with its hashes
              checkpoints/   step-012000/ average/    best, last      pointers into checkpoints/
runs/last     pointer to the run that was started last
"""

from __future__ import annotations

__all__ = [
    "ModelFormat",
    "PublishedModel",
    "Run",
    "find_model",
    "find_run",
    "hub_snapshot",
    "import_model",
    "open_published",
    "outside_files",
    "read_run_record",
    "run_path",
    "tokenizer",
    "training_data",
]

from typing import TYPE_CHECKING

from s2s.lazy import lazy_names
from s2s.run import tokenizer
from s2s.run.hub import hub_snapshot
from s2s.run.outside import outside_files
from s2s.run.paths import find_run, run_path
from s2s.run.published import ModelFormat, PublishedModel, find_model, import_model, open_published
from s2s.run.record import read_run_record

if TYPE_CHECKING:
    from s2s.run.replay import training_data
    from s2s.run.trained_run import Run

__getattr__ = lazy_names(__name__, "trained_run", "replay")  # torch, which finding a run does without
