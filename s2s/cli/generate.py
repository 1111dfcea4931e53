"""s2s-generate: outputs for inputs, in their order."""

from __future__ import annotations

__all__ = ["main"]

import contextlib
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from s2s.cli.command import Options, run_command
from s2s.cli.outputs import check_output
from s2s.config import GenerateConfig
from s2s.config.length_advice import length_advice
from s2s.errors import UserError
from s2s.lasting import lasting_objects
from s2s.run import find_model, find_run
from s2s.run.origin import Origin
from s2s.run.paths import candidates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s.compose import ComposedConfig
    from s2s.generation import LoadedGenerator, PackedDecoding
    from s2s.plugin import Plugins
    from s2s.text import DocumentFormat

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(GenerateConfig, generate, argv)


def generate(composed: ComposedConfig[GenerateConfig], plugins: Plugins, options: Options) -> None:
    """Load the models, then read inputs, search, and write outputs; outputs before an error are kept."""
    from s2s.generation.files import document_files, opening, pipeline, streams, text_formats

    config = composed.config
    for heading, line in _checked_models(config, plugins):
        _report(options, f"{heading:8} {line}")
    if form := document_files.chosen_format(config, plugins.registry):
        return _generate_document(composed, plugins, options, form)
    output = opening.open_output(config)
    _check_output(composed, output.files(), is_new=not output.supports_resume)
    decoding = _decoding(composed, plugins)
    loaded = decoding.load()
    generator, provenance = loaded.generator, loaded.provenance
    read = text_formats.input_format(config, plugins.registry)
    # raises errors before anything is written
    write = text_formats.output_format(config, generator, plugins.registry, output.line_counting_option)
    if output.supports_resume and output.is_done(provenance):
        return _report(options, f"{config.output} is finished; to make it anew, {output.how_to_begin_anew}")
    if options.dry_run:
        return _report(options, f"all is in order; nothing was read or written; on {loaded.description}")
    with contextlib.closing(output):
        n_lines = write.n_lines(config.nbest)
        n_written = output.resume(provenance, n_lines) if output.supports_resume else output.begin(provenance)
        if n_written:
            _report(options, f"{n_written:,} outputs are there already")
        if config.input == "-" and streams.standard_input().isatty():
            _report(options, "type a line, and Enter; Control-D ends")
        started = time.monotonic()
        pipeline.generate_file(generator, config, read, write, output, n_written)
        output.finish()
    _finished(options, decoding, loaded, started)
    decoding.keep(loaded)
    return None


def _decoding(composed: ComposedConfig[GenerateConfig], plugins: Plugins) -> PackedDecoding:
    """What loads the generator, and keeps at the end what lets the next such command do without torch."""
    logging.basicConfig(format="warning: %(message)s")
    with lasting_objects():
        from s2s.generation.packed import PackedDecoding

        return PackedDecoding(composed, plugins)


def _checked_models(config: GenerateConfig, plugins: Plugins) -> Iterator[tuple[str, str]]:
    """Lines about published models; raises an error about a name of no run or checkpoint before torch is imported."""
    for name, checkpoint in config.members():
        directory = find_model(name, plugins)
        candidates(directory, checkpoint)
        if origin := Origin.read(directory):
            yield from origin.lines()
    if config.fusion:
        candidates(find_run(config.fusion, "fusion"), config.fusion_checkpoint)


def _check_output(composed: ComposedConfig[GenerateConfig], written: Sequence[Path], *, is_new: bool) -> None:
    from s2s.generation.files.streams import is_stream

    config = composed.config
    if not is_stream(config.output):
        check_output(composed, "output", written)
        if is_new:
            check_output(composed, "output", [Path(config.output).resolve()], overwrite=config.overwrite)


def _generate_document(
    composed: ComposedConfig[GenerateConfig], plugins: Plugins, options: Options, form: DocumentFormat
) -> None:
    """Read the document, load the models, translate all its blocks, and write it."""
    from s2s.generation.files import document_files

    file = document_files.DocumentFile.read(composed.config, form)
    _check_output(composed, [Path(file.output)], is_new=True)
    decoding = _decoding(composed, plugins)
    loaded = decoding.load()
    if options.dry_run:
        return _report(options, f"all is in order; nothing was written; on {loaded.description}")
    started = time.monotonic()
    file.write(loaded.generator)
    _finished(options, decoding, loaded, started)
    decoding.keep(loaded)
    return None


def _finished(options: Options, decoding: PackedDecoding, loaded: LoadedGenerator, started: float) -> None:
    """Say how much was done in what time, and whether the outputs look wrong."""
    generator = loaded.generator
    how_much = generator.counts.describe(generator.task.counts, time.monotonic() - started)
    _report(options, f"{how_much}; on {loaded.description}")
    if generator.counts.doubt("") and os.environ.get("RANK", "0") == "0":
        logger.warning(generator.counts.doubt(_advice(decoding)))


def _advice(decoding: PackedDecoding) -> str:
    """The options that may help against short outputs; empty also where the run has been removed meanwhile."""
    try:
        return length_advice(decoding.search_config())
    except UserError:
        return ""


def _report(options: Options, line: str) -> None:
    if not options.quiet and os.environ.get("RANK", "0") == "0":
        print(line, file=sys.stderr, flush=True)
