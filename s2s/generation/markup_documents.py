"""Documents with markup through a generator: each block is an input, whose inline markup are its spans."""

from __future__ import annotations

__all__ = ["block_inputs", "format_by_extension", "named_format", "read_file", "translate_document"]

from pathlib import Path
from typing import TYPE_CHECKING, Any

from s2s.compose.conversion import build_choice
from s2s.data.text import missing_file_error
from s2s.errors import DataError
from s2s.generation.candidates import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s.generation.candidates import Output
    from s2s.registry import Registry
    from s2s.text import Document, DocumentFormat


def named_format(name: Any, registry: Registry) -> DocumentFormat:
    """The format of a name, or of a mapping with its name and options; raises ConfigError if there is none."""
    built: DocumentFormat = build_choice(name, "document_format", registry, "format")
    return built


def format_by_extension(path: str, registry: Registry) -> str:
    """The name of the format with this path's extension; empty: none."""
    extension = Path(path).suffix.lower()
    return (extension and registry.by_extension(extension)) or ""  # without one, no plugin need be imported


def read_file(path: Path) -> bytes:
    """The bytes of a document; raises DataError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise missing_file_error(path) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def translate_document(document: Document, generate: Callable[[Iterable[Input]], Iterator[Output]]) -> bytes:
    """The document with the best output of each block."""
    return document.render([output.best.markup for output in generate(block_inputs(document))])


def block_inputs(document: Document) -> list[Input]:
    """An input for each block."""
    return [Input(block.source.text, spans=block.source.spans) for block in document.blocks]
