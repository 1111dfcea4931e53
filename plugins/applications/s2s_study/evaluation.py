"""The results of a run: its outputs, their scores, and its cost."""

from __future__ import annotations

__all__ = ["counted_operations", "evaluate", "training_cost"]

import math
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from s2s import CheckpointError, load_plugins, make_batch
from s2s.backend import Operator
from s2s.compose import compose, to_yaml
from s2s.config import GenerateConfig
from s2s.data import PreparationSpec, read_lines
from s2s.generation import load
from s2s.io import parse_json, read_checked, write_file
from s2s.metrics import build_metrics
from s2s.run import Run
from s2s_study.examples import examples_of, inputs_of
from s2s_study.job_spec import scores_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from s2s import Example, Plugins, Seq2Seq, Task
    from s2s_study.job_spec import Job

EXAMPLES = 32
"""Number of examples in which operations are counted"""
NOT_MEASURES = (
    *("step", "best", "search", "signatures", "path", "kind", "seconds"),
    *("sentences", "of_sentences", "empty", "length_ratio"),
)
"""What the record of a validation has besides the measures of a model"""


def evaluate(job: Job) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Outputs and references, and the result as a JSON-serialisable mapping."""
    plugins = load_plugins(job.plugins)
    cpu = torch.device("cpu")
    runs = [Run.load(Path(path), job.evaluate["checkpoint"], plugins, cpu) for path in job.runs]
    if missing := [reason for run in runs for reason in run.passed_over]:
        raise CheckpointError(f"{missing[0]}; scores of another checkpoint are no result of this job: remove the run")
    parameters = sum(p.numel() for run in runs for p in run.model.parameters())
    examples = examples_of(runs[0].task, job.evaluate)
    logged = [training_cost(Path(path), job.tflops) for path in job.runs]
    costs = [_known(cost, run, examples) for cost, run in zip(logged, runs, strict=True)]
    values: dict[str, Any] = {"parameters": parameters, **_sums(costs)}
    if len(runs) == 1:
        values |= _validation(Path(job.runs[0]), runs[0])
    outputs = {"hyps": list[str](), "refs": [example.tgt for example in examples]}
    scores: dict[str, Any] = {}
    if examples:
        outputs["hyps"], speed = _decode(job, plugins, examples)
        values |= speed
        metrics = build_metrics(runs[0].task, plugins.registry)
        sentence_scores, scores = scores_of(metrics, outputs["hyps"], outputs["refs"], job.samples)
        values |= sentence_scores
    checkpoint = runs[0].checkpoint_path.name
    facts = {"values": values, "scores": scores, "checkpoint": checkpoint, "config": to_yaml(runs[0].config)}
    facts |= {"machine": _machine(Path(job.runs[0])), "inputs": _inputs(runs[0], job)}
    return (outputs if examples else {}), facts


def _inputs(run: Run, job: Job) -> dict[str, Any]:
    return inputs_of(run.task, job.evaluate, PreparationSpec(run.task, run.config.data).recorded_inputs())


def training_cost(directory: Path, tflops: float | None) -> dict[str, float | None]:
    """Updates, target tokens, hours, memory, and operations by count and by the paper's formula.

    The count covers all products of the forward and backward passes (three times the architecture's
    `forward_operations`); the paper's figure is time x devices x the sustained rate of a device (section 6.1), whatever
    it did in that time.
    """
    status = _read(directory / "status.json")
    updates = _records(directory, "update")
    counted = [record["flops"] for record in updates if record.get("flops")]
    ranks = _read(directory / "env.json").get("ranks", 1)
    rate = tflops * 1e12 * ranks if tflops else _measured_rate(updates)
    seconds = float(status["seconds"])
    return {
        "steps": status["steps"],
        "tokens": status["tokens"],
        "hours": seconds / 3600,
        "flops": math.fsum(counted) if len(counted) == len(updates) > 0 else None,
        "paper_flops": seconds * rate if rate else None,
        "memory": max((record["memory"] for record in updates), default=0) or None,
    }


def _known(cost: dict[str, float | None], run: Run, examples: Sequence[Example]) -> dict[str, float | None]:
    """`cost`, with operations extrapolated from examples if the architecture cannot count them from lengths."""
    if cost["flops"] is not None or cost["tokens"] is None:
        return cost
    operations = counted_operations(run.model, run.task, examples)
    return cost if operations is None else {**cost, "flops": operations * cost["tokens"]}


def _measured_rate(updates: Sequence[Mapping[str, Any]]) -> float | None:
    """Median rate of large products on all devices in operations per second, recovered from the log's mfu."""
    rates = sorted(
        r["flops"] / (r["mfu"] * r["device_seconds"])
        for r in updates
        if r.get("flops") and r.get("device_seconds") and r.get("mfu")
    )
    return rates[len(rates) // 2] if rates else None


def _sums(costs: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Totals over all members; None where a member's value is unknown. Memory is the maximum."""
    sums: dict[str, float | None] = {}
    for name in costs[0]:
        known = [cost[name] for cost in costs]
        numbers = [number for number in known if number is not None]
        combine = max if name == "memory" else math.fsum
        sums[name] = combine(numbers) if len(numbers) == len(known) else None
    return sums


def _validation(directory: Path, run: Run) -> dict[str, float]:
    """The measures of the last validation of the decoded checkpoint: nll, ppl, the objective's extra values."""
    status = _read(directory / "status.json")
    records = [r for r in _records(directory, "valid") if r["step"] == _step(run.checkpoint_path)]
    if run.checkpoint_path.name == "average":
        records = [status.get("average") or {}]
    record = records[-1] if records else {}
    return {k: v for k, v in record.items() if k not in NOT_MEASURES and isinstance(v, int | float)}


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _read(path: Path) -> dict[str, Any]:
    """A file of a run; raises CheckpointError if it is damaged."""
    try:
        return read_checked(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); remove the run, so that it is made again") from None


def _records(directory: Path, kind: str) -> list[dict[str, Any]]:
    path = directory / "log.jsonl"
    try:
        records = map(parse_json, read_lines(path))
        return [record for record in records if record["kind"] == kind]
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); remove the run, so that it is made again") from None


def _decode(job: Job, plugins: Plugins, examples: Sequence[Example]) -> tuple[list[str], dict[str, float]]:
    """Outputs, and decoding speed without loading and the selection of backends."""
    options = {"run": job.runs, "checkpoint": job.evaluate["checkpoint"], **job.evaluate["options"]}
    file = Path(job.runs[0]).parent.parent / "jobs" / f"{job.name}.generate.yaml"
    write_file(file, to_yaml(options))
    generator = load(compose(GenerateConfig, [str(file)], plugins), plugins).generator
    began = time.perf_counter()
    hyps = [output.hyp for output in generator(examples)]
    seconds = time.perf_counter() - began
    return hyps, {
        "sentences_per_second": len(hyps) / seconds,
        "tokens_per_second": generator.counts.tokens / seconds,
    }


def _machine(directory: Path) -> str:
    """The machine of a run, from its env.json."""
    env = _read(directory / "env.json")
    packages = env.get("packages", {})
    versions = f"torch {packages.get('torch')}, Python {env.get('python')}"
    return f"{env.get('ranks', 1)} x {env.get('device')}, {env.get('threads')} threads, {versions}"


def counted_operations(model: Seq2Seq, task: Task, examples: Sequence[Example]) -> float | None:
    """Forward and backward operations per target token: three times the products of `forward` and `project`.

    Each example is a batch of its own, so that no padding is counted. None without examples.
    """
    pairs = task.encode(examples[:EXAMPLES])
    n_tokens = sum(len(tgt) + 1 for _, tgt in pairs)
    if not pairs:
        return None
    counter = FlopCounterMode(display=False)
    with torch.enable_grad(), references(), counter:
        for pair in pairs:
            batch = make_batch([pair], task.vocab)
            model.project(model(batch.src, batch.src_pad, batch.tgt_in))
    return 3 * counter.get_total_flops() / n_tokens


@contextmanager
def references() -> Iterator[None]:
    """Use torch's implementation of all operators: the counter does not see products in C."""
    before, Operator.use_implementations = Operator.use_implementations, False
    try:
        yield
    finally:
        Operator.use_implementations = before
