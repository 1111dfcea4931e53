"""A run written in another program's format, under its final name only once both say the same of real sentences."""

from __future__ import annotations

__all__ = ["MANIFEST", "Agreement", "export", "read_manifest", "sentences"]

import json
import shutil
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from s2s.batch import make_batch
from s2s.data.publish import publish
from s2s.data.subword import Subwords
from s2s.decoding import GreedyConfig
from s2s.decoding.beam_search import greedy
from s2s.errors import CheckpointError, ConfigError, DataError
from s2s.export import Unwritten
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s.export import Exported, Format
    from s2s.export.neutral import Weights
    from s2s.model import Seq2Seq
    from s2s.task import Task

MANIFEST = "export.json"
CLOSE = 1e-4
"""How far the log-probability of a symbol may lie from ours"""
LONGEST = 100
"""Symbols of a source or an output up to which both are compared"""


class Agreement(NamedTuple):
    """What the comparison found."""

    n_sentences: int
    n_symbols: int
    farthest: float
    """Largest difference of a symbol's log-probability"""


def export(
    form: Format,
    weights: Weights,
    model: Seq2Seq,
    task: Task,
    lines: Sequence[str],
    place: Path,
    made_of: dict[str, Any],
) -> Agreement:
    """Write, load, compare, and only then give the folder its name; an error leaves nothing behind."""
    _refuse_foreign(place)
    temp = place.with_name(f".{place.name}.tmp")
    shutil.rmtree(temp, ignore_errors=True)
    temp.mkdir(parents=True)
    try:
        form.write(Unwritten(weights, task.vocab, subwords_of(task)), temp)
        agreement = _compare(form.read(temp), model, task, lines)
        written = {**made_of, "checked": agreement._asdict()}
        (temp / MANIFEST).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
        publish(temp, place)
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    return agreement


def read_manifest(folder: Path) -> dict[str, Any]:
    """What an exported folder was made of; CheckpointError if it is none."""
    try:
        written = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        written = None
    if not isinstance(written, dict):
        raise CheckpointError(f"{folder} is no exported model: it has no readable {MANIFEST}; run s2s-export first")
    return written


def subwords_of(task: Task) -> tuple[Subwords, Subwords] | None:
    """The subwords of a task that keeps them as `src` and `tgt`."""
    src, tgt = getattr(task, "src", None), getattr(task, "tgt", None)
    return (src, tgt) if isinstance(src, Subwords) and isinstance(tgt, Subwords) else None


def sentences(task: Task, n: int) -> list[str]:
    """The first `n` sources of the task's development set, or else of its training set."""
    for split in ("valid", "train"):
        found = list(islice(_sources(task, split), n))
        if found:
            return found
    raise ConfigError("there is no sentence to compare the models with; give input=FILE, one a line")


def _sources(task: Task, split: str) -> Iterator[str]:
    for corpus, _ in task.corpora(split):
        for example in task.examples(split, corpus):
            if isinstance(example, Example) and example.src.strip():
                yield example.src


def _refuse_foreign(place: Path) -> None:
    """Only an older export makes way for a new one."""
    if place.exists() and not (place / MANIFEST).is_file():
        raise ConfigError(f"output={place} is there already and no exported model; give another name, or remove it")


def _compare(theirs: Exported, model: Seq2Seq, task: Task, lines: Sequence[str]) -> Agreement:
    """DataError, with the sentence, where outputs differ or a log-probability lies too far from ours."""
    theirs.refuse_other_ids(task, lines)
    most = min(LONGEST, (model.max_len or LONGEST + 1) - 1)
    sources = [ids[:most] for ids in task.encode_source(lines)]
    search = greedy(GreedyConfig(max_len_a=0.0, max_len_b=most))
    batch = make_batch([(ids, []) for ids in sources], task.vocab)
    ours = [found[0] for found in search(model, batch.src, batch.src_pad, task.vocab)]
    farthest = 0.0
    scores = theirs.log_probs(sources, [hypothesis.tokens for hypothesis in ours])
    outputs = theirs.greedy(sources, most)
    for line, own, score, output in zip(lines, ours, scores, outputs, strict=True):
        difference = torch.tensor(score) - torch.tensor(own.token_log_probs)
        distance = float(difference.abs().max())
        if not distance <= CLOSE:
            raise DataError(
                f"the exported model gives other scores than the run for {line[:60]!r}: a log-probability differs by "
                f"{distance:.1e}, and {CLOSE:g} is allowed; nothing was exported"
            )
        if output != own.tokens:
            raise DataError(
                f"the exported model gives another output than the run for {line[:60]!r}: {output[:12]} instead of "
                f"{own.tokens[:12]}; nothing was exported"
            )
        farthest = max(farthest, distance)
    return Agreement(len(lines), sum(map(len, scores)), farthest)
