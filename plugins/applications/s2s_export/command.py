"""s2s-export: a run as a model of CTranslate2 or Hugging Face."""

from __future__ import annotations

__all__ = ["main"]

import logging
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import ConfigError, did_you_mean
from s2s.cli import Options, check_output, run_command
from s2s.io import sha256
from s2s.run import find_model
from s2s_export import ExportConfig, ExportInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from s2s import Choice, Plugins, Registry, Seq2Seq, Vocab
    from s2s.compose import ComposedConfig
    from s2s.foreign import ForeignFormat
    from s2s.run import Run
    from s2s_export import Exporter


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(ExportConfig, export_run, argv)


def export_run(composed: ComposedConfig[ExportConfig], plugins: Plugins, options: Options) -> None:
    """Load the run, write it, compare, and print where it is."""
    config, registry = composed.config, plugins.registry
    logging.basicConfig(format="warning: %(message)s")
    if not config.run:
        raise ConfigError("run: which model? Give run=NAME, a run directory, or run=last")
    entry = registry.get("exporter", config.format)
    directory = find_model(config.run, plugins)
    import torch  # which errors about options and runs do without

    from s2s.run import Run
    from s2s_export.export import check_own, export
    from s2s_export.model_card import model_card

    exporter = entry.build(entry.config())
    run = Run.load(directory, config.checkpoint, plugins, torch.device("cpu"))
    _check_no_constraint(config, run)
    model = _export_input(run, exporter, config, registry)
    lines = _lines(config, run, directory)
    folder = Path(config.output) if config.output else directory / "export" / config.format
    if folder != directory / "export" / config.format:
        check_output(composed, "output", [folder])
    check_own(folder, overwrite=config.overwrite)
    if options.dry_run:
        return
    checkpoint = run.checkpoint_path
    origin = {
        "format": config.format,
        "run": str(directory.absolute()),
        "checkpoint": checkpoint.name,
        "checkpoint_sha256": sha256(checkpoint / "MANIFEST.json"),
    }
    card = model_card(directory, Run.read_origin(directory), run)
    agreement = export(exporter, model, run.model, run.task, lines, folder, origin, card)
    if not options.quiet:
        print(f"checked  {agreement.n_sentences:,} sentences: greedy outputs are the same, and the log-probabilities")
        print(f"         of {agreement.n_tokens:,} tokens differ by {agreement.max_difference:.1e} at most")
        print(f"written  {folder}, from {checkpoint}")


def _check_no_constraint(config: ExportConfig, run: Run) -> None:
    if config.constrained and run.task.constraint() is not None:
        raise ConfigError(
            f"format={config.format} cannot express the constraint of task={run.config.task.name}; give "
            "constrained=false to export the model without it"
        )


def _export_input(run: Run, exporter: Exporter, config: ExportConfig, registry: Registry) -> ExportInput:
    """The run's model, adapters merged into its weights, with its names in the exporter's format."""
    from s2s_export.export import subwords_of

    arch: Choice = run.config.arch
    weights: Mapping[str, Tensor] = run.model.state_dict()
    while ("merged_weights", arch.name) in registry.entries:
        arch, weights = registry.get("merged_weights", arch.name).build(arch, weights)
    names = _format(arch, exporter, config, registry)
    vocab = run.task.vocab
    if vocab.own_start or vocab.own_end:
        raise ConfigError(
            f"format={config.format}: a run of several languages is not exported; s2s-import languages=[SOURCE,TARGET] "
            "makes one of one direction"
        )

    def build(arch: Choice, vocab: Vocab) -> Seq2Seq:
        return registry.get("arch", arch.name).build(arch, vocab)

    return ExportInput(arch, weights, names, vocab, subwords_of(run.task), run.config.search, build)


def _format(arch: Choice, exporter: Exporter, config: ExportConfig, registry: Registry) -> ForeignFormat:
    """The first of the exporter's formats that can express the architecture's options, or else the first."""
    named = [f"{arch.name}.{form}" for form in exporter.formats]
    known: list[ForeignFormat] = [
        registry.get("foreign_format", name).build() for name in named if ("foreign_format", name) in registry.entries
    ]
    if not known:
        architectures = [name.partition(".")[0] for name in registry.names("foreign_format")]
        raise ConfigError(
            f"format={config.format}: no plugin gives the names of arch={arch.name} in it."
            f"{did_you_mean(arch.name, architectures)}"
        )
    for one in known:
        with suppress(ConfigError):
            one.write_options(arch)
            return one
    return known[0]


def _lines(config: ExportConfig, run: Run, directory: Path) -> list[str]:
    from s2s.data import numbered_lines
    from s2s_export.export import sentences

    if not config.input:
        return sentences(run.task, directory, config.sentences)
    read = (line for _, line in numbered_lines(Path(config.input), "drop"))
    lines = list(islice((line for line in read if isinstance(line, str) and line.strip()), config.sentences))
    if not lines:
        raise ConfigError(f"input={config.input} holds no sentence; one a line is expected")
    return lines
