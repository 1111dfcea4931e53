"""The models that write outputs: that of one run, or several as one, optionally fused with a language model."""

from __future__ import annotations

__all__ = ["Models", "load_models"]

from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.backend.linear import NO_MULTIPLIERS, Int8Multipliers
from s2s.checkpoint.manifest import manifest_hash
from s2s.errors import ConfigError
from s2s.generation.ensemble import Ensemble
from s2s.generation.shallow_fusion import ShallowFusion
from s2s.run import Run, find_model, find_run, tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch
    from torch import Tensor

    from s2s.config import GenerateConfig
    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins


class Models(NamedTuple):
    """The models of one command."""

    first: Run
    """Its task is used, and its search unless the options name another"""
    directory: Path
    """Of the first run"""
    model: Seq2Seq
    members: Sequence[Seq2Seq]
    """The models of which `model` consists"""
    provenance: dict[str, Any]
    """What identifies the weights"""
    description: str
    """What is combined, in words; empty for a single model"""
    int8: Mapping[Tensor, Int8Multipliers] = NO_MULTIPLIERS
    """Of weights that were published in 8-bit integers"""


def load_models(config: GenerateConfig, plugins: Plugins, device: torch.device) -> Models:
    """Load the runs and checkpoints that the options name as one model, with the language model that `fusion` names."""
    names = config.members()
    directories = [find_model(name, plugins) for name, _ in names]
    runs = [Run.load(d, checkpoint, plugins, device) for d, (_, checkpoint) in zip(directories, names, strict=True)]
    first, directory, members = runs[0], directories[0], [run.model for run in runs]
    for run, path in zip(runs[1:], directories[1:], strict=True):
        _check_same_task(run, path, first, directory)
        _check_same_tokens("run", path, directory)
    digests = [manifest_hash(run.checkpoint_path) for run in runs]
    int8 = {weight: multipliers for run in runs for weight, multipliers in run.int8.items()}
    if len(runs) == 1:
        models = Models(first, directory, first.model, members, {"checkpoint": digests[0]}, "", int8)
    else:
        description = f"an ensemble of {len(runs)} models"
        models = Models(first, directory, Ensemble(members), members, {"checkpoint": digests}, description, int8)
    return _fused(models, config, plugins, device) if config.fusion else models


def _fused(models: Models, config: GenerateConfig, plugins: Plugins, device: torch.device) -> Models:
    """The models fused with the language model."""
    path, weight = find_run(config.fusion, "fusion"), config.fusion_weight
    _check_same_tokens("fusion", path, models.directory)
    language_model = Run.load(path, config.fusion_checkpoint, plugins, device)
    fused = ShallowFusion(models.model, language_model.model, weight, _source(config, language_model))
    fusion = {"checkpoint": manifest_hash(language_model.checkpoint_path), "weight": weight}
    description = ", ".join(filter(None, [models.description, f"fused with {path.name} by {weight:g}"]))
    return models._replace(
        model=fused,
        members=[*models.members, language_model.model],
        provenance={**models.provenance, "fusion": fusion},
        description=description,
    )


def _source(config: GenerateConfig, run: Run) -> list[int]:
    """The ids, eos included, that stand for every source: a language model's task encodes all sources alike."""
    one, other = run.task.encode_source(["", "a"])  # two letters may both be unknown, and so encode alike
    if one != other:
        raise ConfigError(
            f"fusion={config.fusion} is a run of task={run.config.task.name}, whose outputs depend on a source; "
            "give a run of task=language_model"
        )
    return run.task.vocab.ended(one)


def _check_same_task(other: Run, path: Path, first: Run, directory: Path) -> None:
    names = other.config.task.name, first.config.task.name
    if names[0] != names[1]:
        raise ConfigError(
            f"run: {path} has task={names[0]}, but {directory} has task={names[1]}; "
            "only runs of one task can write an output together"
        )


def _check_same_tokens(option: str, other: Path, directory: Path) -> None:
    """Raise ConfigError for models in which a token has different ids."""
    actual, expected = (tokenizer.identity(path / "tokenizer") for path in (other, directory))
    if actual != expected:
        raise ConfigError(
            f"{option}: {other} and {directory} do not share a vocabulary: the identities of their tokenisers are "
            f"{actual[:12]} and {expected[:12]}. Train one with the prepared data or the tokeniser of the other"
        )
