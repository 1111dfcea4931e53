"""s2s-generate: outputs for inputs, in their order."""

from __future__ import annotations

__all__ = ["main"]

import contextlib
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from s2s.cli import Options, run_command
from s2s.config import GenerateConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from s2s import Plugins
    from s2s.compose import ComposedConfig


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(GenerateConfig, generate, argv)


def generate(composed: ComposedConfig[GenerateConfig], plugins: Plugins, options: Options) -> None:
    """Load the models, then read inputs, search, and write outputs; outputs before an error are kept."""
    from s2s.generation import load  # torch, which --help does without
    from s2s_generate.formats import input_format, output_format
    from s2s_generate.output import open_output
    from s2s_generate.pipeline import generate_file

    def say(line: str) -> None:
        if not options.quiet and os.environ.get("RANK", "0") == "0":
            print(line, file=sys.stderr, flush=True)

    config = composed.config
    output = open_output(config, plugins)
    logging.basicConfig(format="warning: %(message)s")
    generator, made_of, description = load(composed, plugins)
    read = input_format(config, plugins.registry)
    write = output_format(
        config, generator, plugins.registry, output.line_counting_option
    )  # raises errors before anything is written
    if output.supports_resume and output.is_done(made_of):
        return say(f"{config.output} is finished; to make it anew, {output.how_to_begin_anew}")
    if options.dry_run:
        return say(f"all is in order; nothing was read or written; on {description}")
    with contextlib.closing(output):
        n_written = (
            output.resume(made_of, write.n_lines(config.nbest)) if output.supports_resume else output.begin(made_of)
        )
        if n_written:
            say(f"{n_written:,} outputs are there already")
        started = time.monotonic()
        generate_file(generator, config, read, write, output, n_written)
        output.finish()
    how_much = generator.counts.describe(generator.task.counts, time.monotonic() - started)
    return say(f"{how_much}; on {description}")


if __name__ == "__main__":
    sys.exit(main())
