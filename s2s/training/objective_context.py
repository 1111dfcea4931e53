"""What a run offers to the factory of its objective: searches, metrics, and the models of other runs."""

from __future__ import annotations

__all__ = ["OtherRuns", "RunContext"]

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s.compose import entry_config
from s2s.decoding import SearchRequest, search_all
from s2s.distributed import Sharding, World
from s2s.errors import CheckpointError, ConfigError
from s2s.io import dump_record, sha256, write_file
from s2s.metrics import Metric
from s2s.model import evaluating
from s2s.objective import Context
from s2s.plugin import Plugins
from s2s.registry import Choice, Entry
from s2s.run import Run, find_run, read_run_record, tokenizer
from s2s.task import Task

if TYPE_CHECKING:
    from s2s.batch import Batch
    from s2s.model import Seq2Seq


OTHER_RUNS = "other_runs.json"
"""The file of the checkpoints of other runs that a run reads: whenever it resumes, those with which it began"""


@dataclass(frozen=True)
class OtherRuns:
    """Loads runs by name, and records in a run's directory which checkpoint of each was read."""

    directory: Path
    """Of the run that trains"""
    world: World
    plugins: Plugins
    loaded: dict[str, dict[str, str]] = field(default_factory=dict)
    """Name as given -> checkpoint and sha256 of its manifest"""

    def load(self, name: str, option: str) -> tuple[Path, Run]:
        """The directory that RUN or RUN@CHECKPOINT means, and the run itself; called by all ranks.

        Raises CheckpointError if the ranks find different checkpoints, or if the one with which the run began is gone
        or has changed.
        """
        run_name, _, checkpoint_name = name.partition("@")
        directory, recorded = find_run(run_name, option), self._recorded()
        began = recorded.get(name)
        run = Run.load(
            directory, began["checkpoint"] if began else checkpoint_name or "auto", self.plugins, self.world.device
        )
        path = run.checkpoint_path
        identity = {"checkpoint": path.name, "sha256": sha256(path / "MANIFEST.json")}
        if len(set(self.world.all_gather(identity["sha256"]))) > 1:
            raise CheckpointError(
                f"the ranks found different checkpoints of {option}={name}, such as {path}: name one, as in "
                f"{run_name}@{path.name}"
            )
        if began not in (None, identity):
            raise CheckpointError(f"{option}={name}: {path} has changed since this run began with it; put it back")
        self.loaded[name] = identity
        if self.world.is_main and not began:
            write_file(self.directory / OTHER_RUNS, dump_record({"checkpoints": {**recorded, **self.loaded}}))
        return directory, run

    def _recorded(self) -> dict[str, Any]:
        record = read_run_record(self.directory / OTHER_RUNS, "checkpoints")
        return record["checkpoints"] if record else {}


@dataclass(frozen=True)
class RunContext(Context):
    """The context of one run."""

    task: Task
    seed: int
    device: torch.device
    plugins: Plugins
    sharding: Sharding
    tokenizer: Path
    """Folder of the run's own tokeniser"""
    other_runs: OtherRuns

    def search(self, spec: Any, option: str) -> RunDecode:
        """A registered search."""
        return RunDecode(*self._chosen("search", spec, option), self.task, self.sharding)

    def metric(self, spec: Any, option: str) -> RunSentenceMetric:
        """A registered metric, with the task's own options for it, such as the language."""
        entry, config = self._chosen("metric", spec, option, self.task.metric_options)
        return RunSentenceMetric(entry.build(config))

    def load_run(self, name: str, option: str) -> Seq2Seq:
        """See `Context.load_run`."""
        try:
            directory, source = self.other_runs.load(name, option)
        except CheckpointError as error:
            raise ConfigError(f"{error} (the objective needs this run whenever training starts or resumes)") from error
        same = tokenizer.identity(directory / "tokenizer") == tokenizer.identity(self.tokenizer)
        if not same or source.task.vocab != self.task.vocab:
            raise ConfigError(
                f"{option}={name}: its vocabulary is not that of this run; train both on the same prepared data, or "
                "give both the same tokeniser"
            )
        return source.model.requires_grad_(False)

    def _chosen(
        self, group: str, spec: Any, option: str, defaults: Mapping[str, Any] | None = None
    ) -> tuple[Entry, Choice]:
        """The entry and the config for a name, or for a mapping with a name."""
        choice = {"name": spec} if isinstance(spec, str) else spec
        if not isinstance(choice, Mapping) or not isinstance(choice.get("name"), str):
            raise ConfigError(f"{option}={spec}: give a name, or a name with options: {{name: {spec}, …}}")
        entry = self.plugins.registry.get(group, choice["name"])
        known = entry.config.__dataclass_fields__
        chosen = {key: value for key, value in (defaults or {}).items() if key in known} | dict(choice)
        return entry, entry_config(entry, chosen, option)


@dataclass(frozen=True)
class RunDecode:
    """See `s2s.objective.Decode`."""

    entry: Entry
    config: Choice
    task: Task
    sharding: Sharding

    def __call__(self, model: Seq2Seq, batch: Batch, nbest: int = 1) -> list[list[list[int]]]:
        """Outputs of each source of a padded batch."""
        config = self.config
        if "seed" in self.entry.config.__dataclass_fields__:
            config = replace(config, seed=int(torch.randint(2**62, ())))  # type: ignore[call-arg]
        search, constraint = self.entry.build(config), self.task.constraint()
        unsharded = self.sharding.unsharded(model) if model.training else nullcontext()  # validation has done it
        request = SearchRequest.from_batch(model, batch.src, batch.src_pad, self.task.vocab, constraint, nbest=nbest)
        with torch.no_grad(), unsharded, evaluating(model):
            outputs = search_all(search, request)
        return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in outputs]


@dataclass(frozen=True)
class RunSentenceMetric:
    """See `s2s.objective.SentenceMetric`."""

    metric: Metric

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score is better."""
        return self.metric.higher_is_better

    def __call__(self, hyps: Sequence[str], refs: Sequence[str]) -> list[float]:
        """The first value that the metric gives for each sentence."""
        return [float(next(iter(values.values()))) for values in self.metric.per_sentence(hyps, [refs])]
