"""Builds the trainer and all its parts from a configuration, in the order of their dependencies."""

from __future__ import annotations

__all__ = ["build_trainer"]

from typing import TYPE_CHECKING

import numpy as np
import torch

from s2s.backend.device import keep_freed_memory, matmul_rate
from s2s.backend.selection import DTYPES, BackendSelection
from s2s.data.batching import Batches
from s2s.data.prepare import prepare
from s2s.distributed import DDP, FSDP
from s2s.errors import ConfigError, DataError, PluginError
from s2s.generation.generator import Generator
from s2s.metrics import build_metrics
from s2s.model import Seq2Seq
from s2s.nn.activation_checkpointing import checkpoint_activations
from s2s.objective import HasAuxiliary, WithAuxiliary
from s2s.training.batch_size import find_batch_size
from s2s.training.checkpointing import CheckpointManager
from s2s.training.data_loader import DataLoader
from s2s.training.ema import EMA
from s2s.training.micro_batch import find_micro_tokens, longest_pair
from s2s.training.objective_context import RunContext
from s2s.training.retention import Retention
from s2s.training.step_result import RESERVED
from s2s.training.train_step import TrainStep
from s2s.training.trainer import Trainer
from s2s.training.validation import Validation, dev_examples
from s2s.training.variation import varied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from s2s.config import Config
    from s2s.data.batching import Pair
    from s2s.data.prepare import Prepared
    from s2s.distributed import Strategy, World
    from s2s.log import Log
    from s2s.objective import Objective
    from s2s.plugin import Plugins
    from s2s.run import RunDirectory
    from s2s.task import Task

TYPICAL_LENGTH = 25
"""Tokens of a sentence"""
WORTH_MEASURING = 1e13
"""Operations of a run on which the half second of a measurement is well spent"""


def build_trainer(config: Config, plugins: Plugins, world: World, run: RunDirectory, log: Log) -> Trainer:
    """Prepare the data and build model, optimizer and the rest; no checkpoint is loaded yet."""
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    if world.device.type == "cpu":
        keep_freed_memory()
    torch.manual_seed(config.seed)  # for random numbers that plugins draw while they are built
    build = plugins.registry.get
    task: Task = build("task", config.task.name).build(config.task)
    metrics = build_metrics(task, plugins.registry)  # a misspelt name is reported before data are prepared
    prepared = _prepare(task, config, world, run, log)
    model = _model(config, plugins, world, task)
    strategy = _strategy(config, world)
    _check_max_len(model, config, prepared)
    initial = _prepare_model(model, config, task, prepared, plugins, run, world)
    if config.train.activations == "recompute":
        checkpoint_activations(model)
    strategy.wrap(model)
    context = RunContext(task, config.seed, world.device, plugins, strategy, run.path / "tokenizer")
    objective: Objective = build("objective", config.objective.name).build(config.objective, context)
    if isinstance(model, HasAuxiliary):
        objective = WithAuxiliary(objective, model)
    _check_extras(objective, config, [metric.name for metric in metrics])
    train_step = _train_step(config, plugins, world, model, objective, context)
    validation = Validation(
        config=config,
        task=task,
        model=model,
        objective=objective,
        corpora=prepared.valid,
        examples=dev_examples(task, config),
        metrics=metrics,
        generator=Generator(model, task, build("search", config.search.name).build(config.search), world.device),
        world=world,
    )
    found = [
        find_batch_size(config.train, train_step, config.data.max_len, run.path),
        find_micro_tokens(config, train_step, longest_pair([corpus for corpus, _ in prepared.train]), run.path),
    ]
    ema = EMA(model, config.train.ema) if config.train.ema else None
    retention = Retention(config, run.checkpoints, log)
    return Trainer(
        config=config,
        directory=run.path,
        data_loader=_data_loader(config, prepared, train_step, varied(task, config.data.max_len)),
        train_step=train_step,
        validation=validation,
        checkpoints=CheckpointManager(config, run.checkpoints, train_step, ema, log, retention),
        log=log,
        hook=plugins.hook,
        report=[*task.describe(), *prepared.report, *filter(None, found)],
        initial=initial,
        peak_flops=_peak_flops(config, model, train_step.backend, world),
        corpora=prepared.train,
    )


def _train_step(
    config: Config, plugins: Plugins, world: World, model: Seq2Seq, objective: Objective, context: RunContext
) -> TrainStep:
    """Backend, optimizer and schedule of the updates."""
    build = plugins.registry.get
    backend = BackendSelection.select(
        config.train, model, objective, world.device, n_processes=world.size, longest=config.data.max_len
    )
    if config.train.compile:
        model.compile(dynamic=not backend.static_shapes, fullgraph=backend.static_shapes)
    return TrainStep(
        config=config.train,
        seed=config.seed,
        vocab=context.vocab,
        model=model,
        objective=objective,
        optimizer=build("optim", config.optim.name).build(config.optim, _trainable(model, config)),
        schedule=build("schedule", config.schedule.name).build(config.schedule),
        world=world,
        strategy=context.strategy,
        backend=backend,
    )


def _check_extras(objective: Objective, config: Config, metrics: Sequence[str]) -> None:
    """The objective's extras must have names of their own in the records of the log."""
    names = list(objective.extras)
    taken = {name for name in names if names.count(name) > 1 or name in RESERVED or name in metrics}
    if taken:
        raise PluginError(
            f"objective={config.objective.name}: its extra value '{min(taken)}' has the name of another value in the "
            "log; the plugin must choose a different one"
        )


def _prepare(task: Task, config: Config, world: World, run: RunDirectory, log: Log) -> Prepared:
    """Prepare missing corpora, first rank first; raises if a resumed run began with other data."""
    with world.main_process_first("prepare"):
        prepared = prepare(task, config.data, log.line)
    if not any(len(corpus) and weight > 0 for corpus, weight in prepared.train):
        raise DataError(f"task={config.task.name} has no training data; give task.train=…")
    run.keep_tokenizer(prepared.tokenizer)
    run.keep_data(prepared.identity, prepared.directory)
    return prepared


def _prepare_model(
    model: Seq2Seq, config: Config, task: Task, prepared: Prepared, plugins: Plugins, run: RunDirectory, world: World
) -> dict[str, Sequence[str]]:
    """What plugins make of the initial weights: headings and lines for the first screen."""
    reports = plugins.hook.s2s_prepare_model(
        model=model,
        config=config,
        task=task,
        corpora=[corpus for corpus, _ in prepared.train],
        directory=run.path,
        world=world,
        plugins=plugins,
    )
    if not reports and (config.train.init_from or config.train.freeze):
        raise ConfigError("train.init_from, train.freeze: no loaded plugin has them." + plugins.registry.absent())
    return {heading: lines for report in reports for heading, lines in report.items()}


def _data_loader(
    config: Config, prepared: Prepared, train_step: TrainStep, vary: Callable[[Pair, int], Pair] | None
) -> DataLoader:
    """Batches with no more pairs than a constant shape can hold."""
    capacity = train_step.capacity(config.train.n_tokens)
    max_pairs = capacity.n_pairs if capacity else None
    batches = Batches(prepared.train, config.train.n_tokens, config.seed, max_pairs=max_pairs, vary=vary)
    return DataLoader(batches, config.data, train_step.local)


def _check_max_len(model: Seq2Seq, config: Config, prepared: Prepared) -> None:
    """Report sentences that are too long for the model now, not after hours."""
    limit = model.max_len
    if limit is None:
        return
    if config.data.max_len > limit:
        raise ConfigError(
            f"data.max_len={config.data.max_len}, but arch={config.arch.name} takes at most {limit} tokens here; give "
            f"data.max_len={limit}, or a model that takes more"
        )
    for corpus in prepared.valid:
        longest = max((int(n.max(initial=0)) for n in corpus.lengths(np.arange(len(corpus)))), default=0) + 1
        if longest > limit:
            raise DataError(
                f"a sentence of the development set has {longest} tokens, but arch={config.arch.name} takes at most "
                f"{limit} here; leave it out, or choose a model that takes more"
            )


def _trainable(model: Seq2Seq, config: Config) -> list[nn.Parameter]:
    """The parameters that require a gradient."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ConfigError(f"arch={config.arch.name}: no parameter of the model is trainable; is all of it frozen?")
    return parameters


def _peak_flops(config: Config, model: Seq2Seq, backend: BackendSelection, world: World) -> float:
    """Operations a second of large matrix products here; 0 for a model that does not count its own, or a short run."""
    forward = model.forward_operations([TYPICAL_LENGTH], [TYPICAL_LENGTH])
    if forward is None or config.train.steps * 3 * forward * config.train.n_tokens / TYPICAL_LENGTH < WORTH_MEASURING:
        return 0.0
    with backend.matmul.active():
        return world.size * matmul_rate(world.device, DTYPES[config.train.precision])


def _strategy(config: Config, world: World) -> Strategy:
    """How the processes share the model; a single process always holds all of it."""
    if config.train.strategy == "fsdp" and world.size > 1:
        return FSDP(world, DTYPES[config.train.precision])
    return DDP(world)


def _model(config: Config, plugins: Plugins, world: World, task: Task) -> Seq2Seq:
    torch.manual_seed(config.seed)  # the initial weights depend on the seed and the model alone
    try:
        model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
    except TypeError as error:
        if "abstract" in str(error):  # "Can't instantiate abstract class X with abstract method decode"
            raise PluginError(f"arch={config.arch.name}: {error}; write what is missing") from None
        raise
    if not isinstance(model, Seq2Seq):
        raise PluginError(f"arch={config.arch.name}: expected a Seq2Seq, got {type(model).__name__}")
    model.to(world.device)
    return model
