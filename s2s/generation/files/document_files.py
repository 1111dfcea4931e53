"""s2s-generate of a document, which is read and written as a whole."""

from __future__ import annotations

__all__ = ["DocumentFile", "chosen_format"]

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from s2s.errors import ConfigError, DataError
from s2s.generation.files.streams import check_not_gzip, standard_input
from s2s.generation.markup_documents import format_by_extension, named_format, read_file, translate_document
from s2s.io.outputs import write_output

if TYPE_CHECKING:
    from s2s.config import GenerateConfig
    from s2s.generation.generator import Generator
    from s2s.registry import Registry
    from s2s.text import Document, DocumentFormat


def chosen_format(config: GenerateConfig, registry: Registry) -> DocumentFormat | None:
    """The format of the document that the options name; None: the input has lines.

    By default that of files whose names both end as its files do, unless a format of lines has the same name, such as
    text. Raises ConfigError for options that a document does not have.
    """
    name, lines = config.input_format, ("auto", *registry.names("input_format"))
    if name == "auto" and config.format == "text":
        name, of_output = (format_by_extension(path, registry) for path in (config.input, config.output))
        if name != of_output:
            _check_lines(config, name, of_output)
            return None
    if not name or name in lines or (isinstance(name, str) and name not in registry.names("document_format")):
        return None
    _check_options(config)
    return named_format(name, registry)


def _check_lines(config: GenerateConfig, of_input: str, of_output: str) -> None:
    """Raise ConfigError if one of two files without a common format has markup, which would be translated as text."""
    for option, path, form, other in (
        ("input", config.input, of_input, f"output={config.output}"),
        ("output", config.output, of_output, f"input={config.input}"),
    ):
        is_known = config.input != "-" or option == "input"
        if form not in ("", "text") and is_known:
            raise ConfigError(
                f"{option}={path} has a name in {Path(path).suffix}, {other} has not: give both one, or "
                f"input_format={form} for a document, input_format=text for lines of text, markup and all"
            )


def _check_options(config: GenerateConfig) -> None:
    unused = {
        "resume=true": config.resume,
        f"shard={config.shard}": bool(config.shard),
        f"nbest={config.nbest}": config.nbest > 1,
        f"format={config.format}": config.format != "text",
        "raw=true": config.raw,
    }
    for option, is_set in unused.items():
        if is_set:
            raise ConfigError(f"{option}: a document is written as a whole, with its best outputs; leave it out")
    if not config.output or Path(config.output).is_dir():
        raise ConfigError(f"output={config.output}: name a file, or - for standard output")
    check_not_gzip(config.output)
    if os.path.exists(config.input) and os.path.exists(config.output) and os.path.samefile(config.input, config.output):  # noqa: PTH110, PTH121
        raise ConfigError(f"input and output are one file, {config.input}; give another output")


class DocumentFile(NamedTuple):
    """A document that has been read, and where its translation is written."""

    document: Document
    output: str

    @classmethod
    def read(cls, config: GenerateConfig, form: DocumentFormat) -> DocumentFile:
        """Read the input; raises DataError with its name if it is none of its format."""
        name = "standard input" if config.input == "-" else config.input
        data = standard_input().buffer.read() if config.input == "-" else read_file(Path(config.input))
        try:
            return cls(form.read(data), config.output)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None

    def write(self, generator: Generator) -> None:
        """Write the translation; a file is complete, or as it was before."""
        data = translate_document(self.document, generator)
        if self.output != "-":
            write_output(Path(self.output), data)
        elif sys.stdout is None:
            raise ConfigError("output=-: standard output is closed; give output=FILE")
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
