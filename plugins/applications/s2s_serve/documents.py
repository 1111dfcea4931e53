"""Documents: each of their blocks is a text of a request."""

from __future__ import annotations

__all__ = ["document_formats", "document_outputs", "read_document"]

import asyncio
import itertools
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s import ConfigError, DataError
from s2s.generation import Input
from s2s_serve.generating import text_outputs
from s2s_serve.refusal import invalid
from s2s_serve.turns import in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from s2s import Registry
    from s2s.generation import Generator
    from s2s.text import AnnotatedText, Block, Document, DocumentFormat
    from s2s_serve.engine import Engine
    from s2s_serve.generating import TextOptions

BLOCKS = 8
"""Maximum blocks of a document in the queue at once, so that it does not delay short texts"""


def document_formats(registry: Registry) -> Mapping[str, DocumentFormat]:
    """The formats by their names."""
    names = registry.names("document_format")
    return {name: registry.build_default("document_format", name) for name in names}


async def read_document(form: DocumentFormat, data: bytes) -> Document:
    """The document; raises RefusedError if it is none of its format."""
    try:
        return await asyncio.to_thread(form.read, data)
    except (DataError, ConfigError) as error:  # ConfigError: a library is not installed
        raise invalid(str(error)) from error


async def document_outputs(
    engine: Engine, document: Document, options: TextOptions, window: asyncio.Semaphore | None = None
) -> list[bytes]:
    """The `options.nbest` best outputs of a document, or fewer: the k-th has the k-th best output of each block."""
    at_once = asyncio.Semaphore(BLOCKS)
    by_block = zip(document.blocks, _block_options(engine.generator, document, options), strict=True)

    async def block_outputs(block: Block, options: TextOptions) -> list[AnnotatedText]:
        source = block.source
        async with at_once:
            candidates = await text_outputs(engine, source.text, replace(options, spans=source.spans), window)
        return [candidate.markup for candidate in candidates]

    async with aclosing(in_order(itertools.starmap(block_outputs, by_block))) as found:
        outputs = [some async for some in found]
    n = max(map(len, outputs), default=1)
    ranked = [[some[min(k, len(some) - 1)] for some in outputs] for k in range(n)]
    return await engine.in_text_thread(lambda: [document.render(some) for some in ranked])


def _block_options(generator: Generator, document: Document, options: TextOptions) -> list[TextOptions]:
    """The options of each block; its context are the blocks before it, if the task reads any."""
    inputs = [Input(block.source.text, fields=options.fields) for block in document.blocks]
    try:
        return [replace(options, fields=dict(one.fields)) for one in map(generator.follower(), inputs)]
    except DataError as error:
        raise invalid(str(error)) from error
