"""Builds the trainer and all its parts from a configuration, in the order of their dependencies."""

from __future__ import annotations

__all__ = ["build_trainer", "check_names_free"]

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from s2s.backend.host import keep_freed_memory
from s2s.backend.product_rate import matmul_rate
from s2s.backend.selection import DTYPES, BackendSelection
from s2s.config import Config, GenerateConfig
from s2s.data.batching import Batches
from s2s.data.ledger import ledger_record
from s2s.data.preparation import prepare
from s2s.data.wrong_files import wrong_file_signs
from s2s.distributed import World
from s2s.distributed.sharding import OneProcess
from s2s.distributed.strategy import chosen_strategy
from s2s.errors import DataError, PluginError
from s2s.generation.generator import Generator
from s2s.generation.searching import Searcher
from s2s.io.json_files import dump_checked
from s2s.log.log import Log
from s2s.metrics import build_metrics
from s2s.objective import HasAuxiliary, WithAuxiliary
from s2s.plugin import Plugins
from s2s.run.directory import RunDirectory
from s2s.run.replay import with_replay
from s2s.training.agreement import check_agreement, data_of, weights_of
from s2s.training.build_model import build_model, trainable_parameters
from s2s.training.checkpointing import CheckpointManager
from s2s.training.data_loader import DataLoader, varied
from s2s.training.dev_set import check_best, dev_parts, dev_set
from s2s.training.ema import EMA
from s2s.training.learning_rate import checked, following
from s2s.training.objective_checks import check_module
from s2s.training.objective_context import OtherRuns, RunContext
from s2s.training.planner import planner_of
from s2s.training.retention import Retention
from s2s.training.step_result import RESERVED
from s2s.training.train_step import TrainStep
from s2s.training.trainer import Trainer
from s2s.training.validation import Validation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.data import MappedCorpus
    from s2s.data.prepared_data import PreparedData
    from s2s.decoding import Search
    from s2s.distributed import Sharding
    from s2s.metrics import Metric
    from s2s.model import Seq2Seq
    from s2s.objective import Objective
    from s2s.optim import Schedule
    from s2s.task import Task
    from s2s.training.dev_set import DevPart

TYPICAL_LENGTH = 25
"""Tokens per sentence"""
WORTH_MEASURING = 1e13
"""Minimum operations of a run for which a measurement of half a second is worthwhile"""
WORTH_A_THREAD = 6e9
"""Operations of forward and backward at once for each thread: on two cores, two threads were slower than one up to
8 GFLOP, and 1.2 to 1.4 times as fast at 14 GFLOP (fp32 and bf16, width 128; an AMD EPYC)"""


def build_trainer(config: Config, plugins: Plugins, world: World, run: RunDirectory, log: Log) -> Trainer:
    """Prepare the data and build model, optimizer and the rest; no checkpoint is loaded yet."""
    if world.device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(config.seed)  # for random numbers that plugins draw while they are built
    return _Builder(config, plugins, world, run, log).trainer()


@dataclass(frozen=True)
class _Builder:
    config: Config
    plugins: Plugins
    world: World
    run: RunDirectory
    log: Log

    def trainer(self) -> Trainer:
        """The trainer with all its parts: those of the configuration as given, then those of the planned one."""
        run = self.run
        task: Task = self.chosen("task")
        metrics = build_metrics(task, self.plugins.registry)  # a misspelt name is an error before data are prepared
        parts = dev_parts(task, self.plugins.registry)
        check_best(self.config, [metric.name for metric in metrics], parts)
        search: Search = self.chosen("search")
        sharding = self.sharding()
        prepared = self.prepared(task)
        check_agreement(self.world, partial(data_of, self.config, self.world, prepared))
        model, init_facts = build_model(self.config, self.plugins, self.world, task, prepared, run)
        check_agreement(self.world, partial(weights_of, model))
        train_step = self.train_step(model, task, metrics, sharding)
        validation = self.validation(train_step, task, prepared, metrics, search, parts)
        config, report = self.planned(train_step, [corpus for corpus, _ in prepared.train])
        lines = (*task.describe(), *prepared.report, *report)
        operations = update_operations(config, model)
        fit_threads(config, self.world, operations)
        ema = EMA(model, config.train.ema) if config.train.ema else None
        retention = Retention(config, run.checkpoints, self.log)
        return Trainer(
            config=config,
            directory=run.path,
            data_loader=data_loader(config, task, prepared, train_step),
            train_step=train_step,
            validation=replace(validation, config=config),
            checkpoints=CheckpointManager(config, run.checkpoints, train_step, ema, self.log, retention),
            log=self.log,
            hook=self.plugins.hook,
            facts=[*(("data", line) for line in lines), *init_facts],
            peak_flops=peak_flops(config, self.world, operations, train_step.backend),
        )

    def chosen(self, group: str, *args: Any) -> Any:
        """Build the entry that the configuration names in a group."""
        choice = getattr(self.config, group)
        return self.plugins.registry.get(group, choice.name).build(choice, *args)

    def prepared(self, task: Task) -> PreparedData:
        """Prepare missing corpora, rank 0 first; raises if a resumed run began with different data."""
        with self.world.main_process_first("prepare"):
            registry, verify = self.plugins.registry, self.world.local_rank == 0
            prepared = prepare(task, self.config.data, self.log.info, verify=verify, registry=registry)
            prepared = with_replay(prepared, task, self.config, self.plugins, self.log.info)
        if not any(len(corpus) and weight > 0 for corpus, weight in prepared.train):
            raise DataError(f"task={self.config.task.name} has no training data; give task.train=…")
        if self.world.is_main:
            for sign in (*prepared.overlap_warnings, *wrong_file_signs(task, prepared)):
                self.log.warn(sign)
        self.run.copy_tokenizer(prepared.tokenizer)
        self.run.record_data(prepared.identity, prepared.directory, prepared.sources)
        self.run.write_files({"ledger.json": dump_checked(ledger_record(prepared.ledger)).encode()})
        return prepared

    def train_step(self, model: Seq2Seq, task: Task, metrics: Sequence[Metric], sharding: Sharding) -> TrainStep:
        """The training step: the model as the strategy distributes it, objective, backend, optimizer and schedule."""
        config, world = self.config, self.world
        run, plugins = self.run, self.plugins
        others = OtherRuns(run.path, world, plugins)
        context = RunContext(task, config.seed, world.device, plugins, sharding, run.tokenizer, others)
        torch.manual_seed(config.seed)  # its initial parameters, if it has any, depend on nothing else
        objective: Objective = self.chosen("objective", context)
        if objective.module is not None:
            check_module(objective)
            objective.module.to(world.device)
        sharding.wrap(model, objective.module)
        if isinstance(model, HasAuxiliary):
            objective = WithAuxiliary(objective, model)
        check_names_free(objective, config.objective.name, [metric.name for metric in metrics])
        backend = BackendSelection.select(
            config.train, model, objective, world.device, n_processes=world.size, longest=config.data.max_len
        )
        if config.train.compile:
            model.compile(dynamic=not backend.static_shapes, fullgraph=backend.static_shapes)
        return TrainStep(
            config=config.train,
            seed=config.seed,
            vocab=task.vocab,
            model=model,
            objective=objective,
            optimizer=self.chosen("optim", trainable_parameters(model, objective.module, config.arch.name)),
            schedule=checked(self.schedule(), config.schedule.name),
            world=world,
            sharding=sharding,
            backend=backend,
        )

    def schedule(self) -> Schedule:
        """The learning rates; a schedule that ends with the run follows its length."""
        config = self.config.schedule
        build = self.plugins.registry.get("schedule", config.name).build
        return following(build, config, self.log.length)

    def planned(self, train_step: TrainStep, corpora: Sequence[MappedCorpus]) -> tuple[Config, list[str]]:
        """The configuration with values for what it leaves to `auto`, which `train_step` follows from now on, and lines
        for the first screen."""
        planner, report = planner_of(self.config, self.plugins), list[str]()
        if self.config.train.precision == "auto":
            precision, line = planner.precision(train_step, corpora, self.run.path)
            train_step.config = replace(train_step.config, precision=precision)
            report.append(line)
        plan = planner.batch(replace(self.config, train=train_step.config), train_step, corpora, self.run.path)
        train_step.apply_plan(plan)
        return replace(self.config, train=train_step.config), [*report, *plan.report]

    def sharding(self) -> Sharding:
        """How the processes share the model; a single process always holds all of it."""
        strategy = chosen_strategy(self.config.train, self.plugins.registry)
        if self.world.size == 1:
            return OneProcess()
        assert strategy, "a world of several ranks is that of a strategy"
        return strategy.share(self.world, DTYPES[self.config.train.precision])

    def validation(
        self,
        train_step: TrainStep,
        task: Task,
        prepared: PreparedData,
        metrics: Sequence[Metric],
        search: Search,
        parts: Sequence[DevPart],
    ) -> Validation:
        """Validation of the model being trained, with the configured search."""
        model, longest = train_step.model, max(self.config.data.max_len, GenerateConfig.max_source)
        decoding = self.plugins.registry.with_options(GenerateConfig)(max_source=longest, split=False, keep=[])
        searcher = Searcher.build(model, task, search, self.world.device, decoding, self.plugins)
        decoded = dev_set(task, self.config, self.world, parts)
        return Validation(
            config=self.config,
            task=task,
            model=model,
            objective=train_step.objective,
            corpora=prepared.valid,
            examples=decoded.examples,
            metrics=metrics,
            generator=Generator(task, searcher, self.plugins),
            world=self.world,
            parts=decoded.parts,
        )


def data_loader(config: Config, task: Task, prepared: PreparedData, train_step: TrainStep) -> DataLoader:
    """Batches with no more pairs than a static shape can hold."""
    capacity = train_step.micro_batches.capacity(config.train.n_tokens)
    max_pairs = capacity.n_pairs if capacity else None
    vary = varied(task, config.data.max_len)
    share = task.varied_share()
    batches = Batches(prepared.train, config.train.n_tokens, config.seed, max_pairs=max_pairs, vary=vary, share=share)
    return DataLoader(batches, config.data, lambda batch: train_step.micro_batches.local(batch))


def update_operations(config: Config, model: Seq2Seq) -> float | None:
    """Operations of an update of typical sentences on all devices; None if the model does not count its own."""
    forward = model.forward_operations([TYPICAL_LENGTH], [TYPICAL_LENGTH])
    return None if forward is None else 3 * forward * config.train.n_tokens / TYPICAL_LENGTH


def fit_threads(config: Config, world: World, operations: float | None) -> None:
    """Use no more threads than an update has work for, unless train.threads gives a number; decided by the sizes alone,
    never by time, since a run's bits depend on it."""
    train = config.train
    if world.device.type == "cpu" and not train.threads and operations is not None:
        at_once = min(train.n_micro_tokens or train.n_tokens, train.n_tokens / world.size) / train.n_tokens
        torch.set_num_threads(max(1, min(torch.get_num_threads(), int(operations * at_once / WORTH_A_THREAD))))


def peak_flops(config: Config, world: World, operations: float | None, backend: BackendSelection) -> float:
    """Operations per second of large matrix products on all devices; 0 for a short run, and for a model that does not
    count its own operations."""
    if operations is None or config.train.steps * operations < WORTH_MEASURING:
        return 0.0
    with backend.matmul.active():
        return world.size * matmul_rate(world.device, DTYPES[config.train.precision])


def check_names_free(objective: Objective, name: str, metrics: Sequence[str]) -> None:
    """Raise PluginError if a metric or an extra value of objective=`name` has the name of another value in the log."""
    for metric in metrics:
        if metric == "nll" or metric in RESERVED:
            raise PluginError(
                f"metric '{metric}' has the name of another value in the log; its plugin must choose a different one"
            )
    names = list(objective.extras)
    taken = {extra for extra in names if names.count(extra) > 1 or extra in RESERVED or extra in metrics}
    if taken:
        raise PluginError(
            f"objective={name}: its extra value '{min(taken)}' has the name of another value in the "
            "log; the plugin must choose a different one"
        )
