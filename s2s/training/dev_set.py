"""The development set: what is decoded of it, and its corpora that have scores of their own."""

from __future__ import annotations

__all__ = ["DevPart", "DevSet", "check_best", "dev_parts", "dev_set", "grouped", "losses_of", "scores_of"]

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.errors import ConfigError, DataError, did_you_mean
from s2s.metrics import Metric, Score, build_metrics
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from s2s.config import Config
    from s2s.distributed import World
    from s2s.registry import Registry
    from s2s.task import Task


@dataclass(frozen=True)
class DevPart:
    """A development corpus with scores of its own, named after it: en-de/bleu."""

    name: str
    weight: float
    """Its part in the mean of each score"""
    metrics: Sequence[Metric]
    rows: Sequence[int] = ()
    """Which of the decoded examples are its own"""


def dev_parts(task: Task, registry: Registry) -> list[DevPart]:
    """The development corpora of a task that scores them apart; none for any other."""
    options = {name: (weight, task.scored_apart(name)) for name, weight in task.corpora("valid")}
    return [
        DevPart(name, weight, build_metrics(task, registry, defaults=own))
        for name, (weight, own) in options.items()
        if own is not None
    ]


def grouped(task: Task, registry: Registry, fields: Iterable[Mapping[str, Any]], requested: Any) -> list[DevPart]:
    """The groups of inputs that a task scores apart, all with the same weight; none for any other task.

    fields: of every input. requested: metrics, as for `build_metrics`.
    """
    groups = [task.scored_group(of) for of in fields]
    options = dict(group for group in groups if group is not None)
    rows = defaultdict[str, list[int]](list)
    for row, group in enumerate(groups):
        if group is not None:
            rows[group[0]].append(row)
    return [
        DevPart(name, 1.0, build_metrics(task, registry, requested, defaults=own), rows[name])
        for name, own in options.items()
    ]


def losses_of(parts: Sequence[DevPart], values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each value over the parts, then nll of every part; values: of each part."""
    means = {name: _mean(parts, [own[name] for own in values]) for name in values[0]}
    return {**means, **{f"{part.name}/nll": own["nll"] for part, own in zip(parts, values, strict=True)}}


def scores_of(parts: Sequence[DevPart], hyps: Sequence[str], refs: Sequence[str], samples: int = 0) -> list[Score]:
    """The mean of each metric over the parts that have outputs, then the scores of every part.

    samples: of the bootstrap for the intervals of the parts; means have none.
    """
    present = [part for part in parts if part.rows]
    of_parts = [[metric.scored(*_own(part, hyps, refs), samples) for metric in part.metrics] for part in present]
    counted = sum(part.weight > 0 for part in present) or len(present)
    means = [
        replace(
            same[0],
            value=_mean(present, [one.value for one in same]),
            low=None,
            high=None,
            signature=f"mean of {counted} corpora",
        )
        for same in zip(*of_parts, strict=True)
    ]
    apart = [
        replace(score, name=f"{part.name}/{score.name}")
        for part, scores in zip(present, of_parts, strict=True)
        for score in scores
    ]
    return [*means, *apart]


def _own(part: DevPart, hyps: Sequence[str], refs: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    return [hyps[row] for row in part.rows], [[refs[row] for row in part.rows]]


def _mean(parts: Sequence[DevPart], values: Sequence[float]) -> float:
    """Over the parts by their weights; over all alike if none has one."""
    weights = [part.weight for part in parts]
    weights = weights if any(weights) else [1.0] * len(parts)
    return math.fsum(w * x for w, x in zip(weights, values, strict=True) if w) / math.fsum(weights)


def check_best(config: Config, metrics: Sequence[str], parts: Sequence[DevPart] = ()) -> None:
    """Raise ConfigError unless valid.best is a value of validation with these metrics."""
    names = ["nll", *(metrics if config.valid.score else [])]
    known = [*names, *(f"{part.name}/{name}" for part in parts for name in names)]
    if config.valid.best not in known:
        hint = did_you_mean(config.valid.best, known)
        raise ConfigError(f"valid.best={config.valid.best} is not among the values of validation.{hint}")


class DevSet(NamedTuple):
    """What validation decodes."""

    examples: list[Example]
    parts: list[DevPart]
    """With their rows"""


def dev_set(task: Task, config: Config, world: World, parts: Sequence[DevPart] = ()) -> DevSet:
    """The examples that validation decodes, read before the first update: a missing file is reported at once.

    The parts take turns, so that the first examples have some of each. Raises DataError unless all processes, each of
    which reads them itself, have the same, and at least one.
    """
    if not config.valid.score:
        return DevSet([], list(parts))
    names = [name for name, _ in task.corpora("valid")]
    named = list(islice(_in_turn(task, names) if parts else _in_order(task, names), config.valid.sentences or None))
    examples = [example for _, example in named]
    digests = world.all_gather(hashlib.sha256(repr([(one.src, one.tgt) for one in examples]).encode()).hexdigest())
    if len(set(digests)) > 1 or (names and not examples):
        what = "other ones in each process" if examples else "none when they are read again, after preparation"
        raise DataError(
            f"task={config.task.name}: its examples of the development set are {what}; they must be the same every time"
        )
    rows = {part.name: [row for row, (name, _) in enumerate(named) if name == part.name] for part in parts}
    return DevSet(examples, [replace(part, rows=rows[part.name]) for part in parts])


def _in_order(task: Task, names: Sequence[str]) -> Iterator[tuple[str, Example]]:
    """The usable examples of one corpus after the other, each with the name of its corpus."""
    return ((name, one) for name in names for one in task.examples("valid", name) if isinstance(one, Example))


def _in_turn(task: Task, names: Sequence[str]) -> Iterator[tuple[str, Example]]:
    """The same with one of each corpus in turn, as long as it has any."""
    turns = zip_longest(*(_in_order(task, [name]) for name in names))
    return (one for one in chain.from_iterable(turns) if one is not None)
