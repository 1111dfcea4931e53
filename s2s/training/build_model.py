"""The model of a run: built, then checked, initialised and frozen by plugins."""

from __future__ import annotations

__all__ = ["build_model", "described_size", "trainable_parameters"]

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from s2s.compose import flatten
from s2s.errors import ConfigError, DataError, PluginError, is_out_of_memory
from s2s.model import Seq2Seq
from s2s.nn.activation_checkpointing import checkpoint_activations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from s2s.config import Config
    from s2s.data.prepared_data import PreparedData
    from s2s.distributed import World
    from s2s.plugin import Plugins
    from s2s.run.directory import RunDirectory
    from s2s.task import Task


MAX_TENSORS = 1_000_000
"""Most parameters, as tensors, of a model"""


def build_model(
    config: Config, plugins: Plugins, world: World, task: Task, prepared: PreparedData, run: RunDirectory
) -> tuple[Seq2Seq, list[tuple[str, str]]]:
    """The whole model on its device, and facts for the first screen: what plugins did with its weights."""
    model = _new_model(config, plugins, task).to(world.device)
    _check_sentence_lengths(model, config, prepared)
    plugin_facts = plugins.hook.s2s_prepare_model(
        model=model,
        config=config,
        task=task,
        corpora=[corpus for corpus, _ in prepared.train],
        directory=run.path,
        world=world,
        plugins=plugins,
    )
    if config.train.activations == "recompute":
        checkpoint_activations(model)
    return model, [fact for facts in plugin_facts for fact in facts]


def _new_model(config: Config, plugins: Plugins, task: Task) -> Seq2Seq:
    """The model that `arch` names; its initial weights depend only on the seed and the model."""
    torch.manual_seed(config.seed)
    try:
        with _size_limit():
            model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=plugins.registry)
    except Exception as error:
        if is_out_of_memory(error):
            raise _too_large(config) from None
        if isinstance(error, TypeError) and "abstract" in str(
            error
        ):  # "Can't instantiate abstract class X with abstract method decode"
            raise PluginError(f"arch={config.arch.name}: {error}; write what is missing") from None
        raise
    if not isinstance(model, Seq2Seq):
        raise PluginError(f"arch={config.arch.name}: expected a Seq2Seq, got {type(model).__name__}")
    if task.vocab.labels and not model.ignores_labels:
        raise ConfigError(
            f"task={config.task.name} labels the words of training pairs, and arch={config.arch.name} would read the "
            "labels as input; give arch.words=pooled, or train without labels"
        )
    return model


@contextmanager
def _size_limit() -> Iterator[None]:
    """Raise MemoryError as soon as a model that is built in the block has more than MAX_TENSORS, which takes hours."""
    n_left = MAX_TENSORS

    def count(*_: object) -> None:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise MemoryError

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _too_large(config: Config) -> ConfigError:
    """The error for a model for which there is no memory; the option that is to blame is likely the largest one."""
    sizes = {key: value for key, value in flatten(config.arch).items() if type(value) is int}
    largest = max(sizes, key=lambda key: sizes[key], default="")
    which = f": arch.{largest}={sizes[largest]} is the largest of its numbers; give a smaller one" if largest else ""
    return ConfigError(f"arch={config.arch.name}: there is no memory for so large a model{which}")


def _check_sentence_lengths(model: Seq2Seq, config: Config, prepared: PreparedData) -> None:
    """Raise an error before the first update, rather than hours later, if sentences are too long for the model."""
    limit = model.max_len
    if limit is None:
        return
    if config.data.max_len > limit:
        raise ConfigError(
            f"data.max_len={config.data.max_len}, but arch={config.arch.name} takes at most {limit} tokens here; give "
            f"data.max_len={limit}, or a model that takes more"
        )
    for corpus in prepared.valid:
        longest = max(int(n.max(initial=0)) for n in corpus.lengths(np.arange(len(corpus)))) + 1
        if longest > limit:
            raise DataError(
                f"a sentence of the development set has {longest} tokens, but arch={config.arch.name} takes at most "
                f"{limit} here; leave it out, or choose a model that takes more"
            )


def described_size(model: nn.Module, arch: str) -> str:
    """The number of parameters, and how many are trained if some are frozen, for the first screen."""
    n = sum(p.numel() for p in model.parameters())
    n_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return f"{n:,} parameters, {arch}" + (f"; {n_trained:,} are trained" if n_trained < n else "")


def trainable_parameters(model: Seq2Seq, objective: nn.Module | None, arch: str) -> list[nn.Parameter]:
    """The parameters that require a gradient, the objective's own last; ConfigError if the model has none."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ConfigError(f"arch={arch}: no parameter of the model is trainable; is all of it frozen?")
    more = objective.parameters() if objective else ()
    return list(dict.fromkeys([*parameters, *(p for p in more if p.requires_grad)]))
