"""The models of several runs as one, optionally fused with a language model."""

from __future__ import annotations

__all__ = ["load_models", "names_of"]

from typing import TYPE_CHECKING, Any

from s2s import ConfigError
from s2s.generation import Models
from s2s.io import sha256
from s2s.run import find_run, load_run, tokenizer
from s2s_ensemble.ensemble import Ensemble
from s2s_ensemble.shallow_fusion import ShallowFusion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import torch

    from s2s import Plugins
    from s2s.run import Run
    from s2s_ensemble import FusionOptions


def load_models(
    names: Sequence[tuple[str, str]], config: FusionOptions, plugins: Plugins, device: torch.device
) -> Models:
    """The runs and checkpoints of `names` as one model, with the language model that `fusion` names."""
    directories = [find_run(name) for name, _ in names]
    runs = [load_run(d, wanted, plugins, device) for d, (_, wanted) in zip(directories, names, strict=True)]
    first, directory, members = runs[0], directories[0], [run.model for run in runs]
    for other, of_other in zip(runs[1:], directories[1:], strict=True):
        _check_same_task(other, of_other, first, directory)
        _check_same_tokens("run", of_other, directory)
    digests = [sha256(run.checkpoint_path / "MANIFEST.json") for run in runs]
    model = first.model if len(runs) == 1 else Ensemble(members)
    made_of: dict[str, Any] = {"checkpoint": digests[0] if len(runs) == 1 else digests}
    description = f"an ensemble of {len(runs)} models" if len(runs) > 1 else ""
    if not config.fusion:
        return Models(first, directory, model, members, made_of, description)
    path = find_run(config.fusion, "fusion")
    _check_same_tokens("fusion", path, directory)
    beside = load_run(path, config.fusion_checkpoint, plugins, device)
    fused = ShallowFusion(model, beside.model, config.fusion_weight, _source(config, beside))
    made_of["fusion"] = {"checkpoint": sha256(beside.checkpoint_path / "MANIFEST.json"), "weight": config.fusion_weight}
    description = ", ".join(filter(None, [description, f"fused with {path.name} by {config.fusion_weight:g}"]))
    return Models(first, directory, fused, [*members, beside.model], made_of, description)


def names_of(config: FusionOptions) -> list[tuple[str, str]]:
    """Every member's run and checkpoint; a single one of either stands for all."""
    runs, checkpoints = (value if isinstance(value, list) else [value] for value in (config.run, config.checkpoint))
    n = max(len(runs), len(checkpoints))
    for option, values in (("run", runs), ("checkpoint", checkpoints)):
        if len(values) not in (1, n) or not all(values):
            raise ConfigError(
                f"{option}=[{','.join(values)}] names {len([v for v in values if v])} of {n} models; "
                "give a checkpoint for each run, or one for all"
            )
    return list(zip(runs * (n // len(runs)), checkpoints * (n // len(checkpoints)), strict=True))


def _source(config: FusionOptions, run: Run) -> list[int]:
    """The ids, eos included, that stand for every source: a language model's task encodes all sources alike."""
    one, other = run.task.encode_source(["", "a"])  # two letters may both be unknown, and so encode alike
    if one != other:
        raise ConfigError(
            f"fusion={config.fusion} is a run of task={run.config.task.name}, whose outputs depend on a source; "
            "give a run of task=language_model"
        )
    return [*one, run.task.vocab.eos]


def _check_same_task(other: Run, of_other: Path, first: Run, directory: Path) -> None:
    names = other.config.task.name, first.config.task.name
    if names[0] != names[1]:
        raise ConfigError(
            f"run: {of_other} has task={names[0]}, but {directory} has task={names[1]}; "
            "only runs of one task can write an output together"
        )


def _check_same_tokens(option: str, other: Path, directory: Path) -> None:
    """Refuse models in which a token has different ids."""
    found, expected = (tokenizer.identity(path / "tokenizer") for path in (other, directory))
    if found != expected:
        raise ConfigError(
            f"{option}: {other} and {directory} do not share a vocabulary: the identities of their tokenisers are "
            f"{found[:12]} and {expected[:12]}. Train one with the prepared data or the tokeniser of the other"
        )
