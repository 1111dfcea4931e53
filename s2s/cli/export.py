"""s2s-export: a trained run as another program's model."""

from __future__ import annotations

__all__ = ["main"]

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.config import ExportConfig
from s2s.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s.compose import ComposedConfig
    from s2s.export.neutral import Weights
    from s2s.plugin import Plugins
    from s2s.registry import Registry
    from s2s.run import Run


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(ExportConfig, export_run, argv)


def export_run(composed: ComposedConfig[ExportConfig], plugins: Plugins, options: Options) -> None:
    """Load the run, write it, compare, and say where it is."""
    import torch  # which --help does without

    from s2s.durable import digest
    from s2s.export.exporting import export
    from s2s.run import find_run, load_run

    config, registry = composed.config, plugins.registry
    if not config.run:
        raise ConfigError("run: which model? Give run=NAME, a run directory, or run=last")
    entry = registry.get("export", config.format)
    form = entry.build(entry.config())
    directory = find_run(config.run)
    run = load_run(directory, config.checkpoint, plugins, torch.device("cpu"))
    _refuse_constraint(config, run)
    weights = _expressed(run, registry)
    lines = _lines(config, run)
    place = Path(config.output) if config.output else directory / "export" / config.format
    if options.dry_run:
        return
    checkpoint = run.checkpoint_path
    made_of = {
        "format": config.format,
        "run": str(directory.absolute()),
        "checkpoint": checkpoint.name,
        "checkpoint_sha256": digest(checkpoint / "MANIFEST.json"),
    }
    agreement = export(form, weights, run.model, run.task, lines, place, made_of)
    if not options.quiet:
        print(f"checked  {agreement.n_sentences:,} sentences: greedy outputs are the same, and the log-probabilities")
        print(f"         of {agreement.n_symbols:,} symbols differ by {agreement.farthest:.1e} at most")
        print(f"written  {place}, from {checkpoint}")


def _refuse_constraint(config: ExportConfig, run: Run) -> None:
    if config.constrained and run.task.constraint() is not None:
        raise ConfigError(
            f"format={config.format} cannot express which outputs task={run.config.task.name} allows; give "
            "constrained=false to export the model without that"
        )


def _expressed(run: Run, registry: Registry) -> Weights:
    """What the weights mean, as the architecture's plugin says it."""
    name = run.config.arch.name
    if ("neutral", name) not in registry.entries:
        raise ConfigError(
            f"arch={name}: no plugin says what its weights mean, so that no format can express it."
            f"{did_you_mean(name, registry.names('neutral'))}"
        )
    return registry.get("neutral", name).build(run.config.arch, run.model)


def _lines(config: ExportConfig, run: Run) -> list[str]:
    from s2s.data.lines import numbered_lines
    from s2s.export.exporting import sentences

    if not config.input:
        return sentences(run.task, config.sentences)
    read = (line for _, line in numbered_lines(Path(config.input), "drop"))
    found = list(islice((line for line in read if isinstance(line, str) and line.strip()), config.sentences))
    if not found:
        raise ConfigError(f"input={config.input} holds no sentence; one a line is expected")
    return found
