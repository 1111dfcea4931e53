"""s2s-import: a published model as a run."""

from __future__ import annotations

__all__ = ["main"]

import os
from pathlib import Path
from typing import TYPE_CHECKING

from s2s import CheckpointError, ConfigError
from s2s.cli import Options, run_command
from s2s_import import ImportConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Plugins
    from s2s.compose import ComposedConfig


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    return run_command(ImportConfig, import_published, argv)


def import_published(composed: ComposedConfig[ImportConfig], plugins: Plugins, options: Options) -> None:
    """Write the run, and print what became of the model."""
    from s2s.run import import_model, open_published, run_path

    config = composed.config
    if not config.model:
        raise ConfigError("model: which one? Give model=FOLDER, such as a folder of Hugging Face's transformers")
    directory = run_path(config.run or Path(config.model.partition("@")[0]).expanduser().resolve().name)
    if os.path.lexists(directory):
        raise CheckpointError(f"run={directory} is there already; give another name, or remove it")
    published = open_published(config.model, plugins.registry, config.languages, config.new_languages)
    texts = Lines([*config.vocab, *config.characters]) if config.vocab else None
    tokens = [
        *sorted({character for line in Lines(config.characters) for character in line if character.isprintable()})
    ]
    if not options.dry_run:
        import_model(published, directory, plugins, texts, [*tokens, *config.tokens])
    if not options.quiet:
        print(f"model    {published.title}, {published.name}{f'@{published.commit}' if published.commit else ''}")
        print(*(f"note     {note}" for note in published.notes), sep="\n", end="\n" if published.notes else "")
        print(f"run      {directory}{' (not written)' if options.dry_run else ''}")
        print(f"next     s2s-generate run={config.run or directory.name} input=FILE")


class Lines:
    """The lines of all files, each time that they are asked for; what is no UTF-8 is left out."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files

    def __iter__(self) -> Iterator[str]:
        from s2s.data import numbered_lines

        for file in self.files:
            yield from (line for _, line in numbered_lines(Path(file), "drop") if isinstance(line, str))
