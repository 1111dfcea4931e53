"""s2s from Python: what the commands do, with the same code.

Options are those of the commands, by keyword or written as on the command line:
`load("mine", device="cpu", search={"beam": 8})`, `load("mine", "search.beam=8")`.
"""

from __future__ import annotations

__all__ = ["evaluate", "load", "plugins", "train"]

from collections.abc import Iterable
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.compose import arguments_of, compose
from s2s.compose.arguments import local_plugins
from s2s.config import Config, GenerateConfig
from s2s.config.data import PrepareConfig
from s2s.errors import ConfigError, DataError, S2SError
from s2s.metrics import build_metrics
from s2s.plugin import load_plugins
from s2s.registry import PRESET_GROUPS
from s2s.text_lists import as_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s.compose import ComposedConfig
    from s2s.metrics import Score
    from s2s.plugin import Plugins
    from s2s.trained_model import TrainedModel

T = TypeVar("T")


def load(run: str | Path | Sequence[str | Path], *arguments: str, **options: Any) -> TrainedModel:
    """A trained run, or several as an ensemble, ready to decode.

    run: its name or folder, as in `s2s-generate run=`, optionally with @checkpoint; an ensemble is a list.
    arguments: options as on the command line, such as "search.beam=8".
    options: those of s2s-generate: some concern the models (checkpoint, fusion, device, quantization, …), the others
    are defaults for every call of `translate`.
    """
    from s2s.trained_model import TrainedModel  # torch

    runs = [str(one) for one in run] if isinstance(run, list | tuple) else str(run)
    words = [*_texts(arguments), *arguments_of(GenerateConfig, {"run": runs, **options})]
    return TrainedModel(words, _plugins(words))


def train(*arguments: str, quiet: bool = False, **options: Any) -> Path:
    """Train, or continue an existing run; returns the run's directory, for `load`. Raises S2SError if training fails.

    arguments: options as on the command line, and configuration files.
    quiet: warnings and errors only.
    options: those of s2s-train.
    """
    from s2s.cli.command import Options
    from s2s.cli.train import train_or_launch
    from s2s.run import run_path
    from s2s.training.planner import planner_of

    words = [*_texts(arguments), *arguments_of(Config, options)]
    composed, plugins = _composed(Config, words)
    path = run_path(composed.config.run or planner_of(composed.config, plugins).run_name(composed))
    code = train_or_launch(composed, plugins, Options(quiet=quiet), [*words, *["--quiet"] * quiet])
    if code:
        raise S2SError(f"training in {path} ended with exit code {code}; the log there says why")
    return path


def evaluate(
    hyps: Iterable[str],
    refs: Iterable[str] | Iterable[Iterable[str]],
    *,
    task: str | Mapping[str, Any],
    metrics: Any = None,
    samples: int = 1000,
    seed: int = 12345,
    **options: Any,
) -> dict[str, Score]:
    """The scores of outputs against references, under the names of `metrics`: by default the task's.

    hyps: the outputs. None and NaN, as tables have them, are empty texts.
    refs: one for each output, or `[n_refs][n_sentences]`.
    task: its name, or a mapping of its options with `name`.
    metrics: names, or mappings with `name` and options, or a list of these.
    samples: of the bootstrap for the 95% intervals; 0: none.
    seed: of the bootstrap.
    options: those of metrics, such as `lowercase=True`.
    """
    outputs, references = as_texts(hyps, "output"), _references(refs)
    for of in references:
        if len(of) != len(outputs):
            raise DataError(f"{len(outputs):,} outputs and {len(of):,} references; give one for each")
    if not outputs:
        raise DataError("there is nothing to score: no outputs are given")
    if not isinstance(samples, Integral) or samples < 0:
        raise ConfigError(f"samples={samples!r} must be a number from 0 up")
    composed, plugins = _composed(PrepareConfig, arguments_of(PrepareConfig, {"task": task}))
    spec_task = plugins.registry.get("task", composed.config.task.name).build(composed.config.task)
    built = build_metrics(spec_task, plugins.registry, metrics, options)
    return {metric.name: metric.scored(outputs, references, samples, seed) for metric in built}


def plugins(*local: str) -> Mapping[str, list[str]]:
    """The names that each group accepts, presets included; local: modules or files of your own."""
    registry = load_plugins(_texts(local)).registry
    return {group: registry.names(group) for group in dict.fromkeys((*registry.groups, *PRESET_GROUPS))}


def _references(refs: Any) -> list[list[str]]:
    """[n_refs][n_sentences] from references in either form."""
    several = list(refs) if isinstance(refs, Iterable) and not isinstance(refs, str) else refs
    if several and all(isinstance(of, Iterable) and not isinstance(of, str) for of in several):
        return [as_texts(of, "reference") for of in several]
    return [as_texts(several, "reference")]


def _texts(arguments: Sequence[Any]) -> list[str]:
    """Arguments as on a command line; a path of a file is one."""
    for one in arguments:
        if not isinstance(one, str | Path):
            raise ConfigError(f"{one!r}: an argument is text, as on the command line, such as 'search.beam=8'")
    return list(map(str, arguments))


def _composed(schema: type[T], arguments: Sequence[str]) -> tuple[ComposedConfig[T], Plugins]:
    plugins = _plugins(arguments)
    return compose(schema, arguments, plugins), plugins


def _plugins(arguments: Sequence[str]) -> Plugins:
    return load_plugins(local_plugins(arguments))
