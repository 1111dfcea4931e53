"""Documents: each of their blocks is a text of a request."""

from __future__ import annotations

__all__ = ["document_formats", "document_outputs", "document_texts", "read_document", "render_outputs"]

import asyncio
import itertools
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from s2s import ConfigError, DataError
from s2s.generation import Input
from s2s_serve.generating import ListedText, read_text, text_outputs
from s2s_serve.refusal import invalid
from s2s_serve.turns import in_order, map_in_turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s import Registry
    from s2s.generation import Candidate, Generator
    from s2s.text import Document, DocumentFormat
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


async def document_outputs(engine: Engine, document: Document, options: TextOptions) -> list[bytes]:
    """The `options.nbest` best outputs of a document, or fewer."""
    at_once = asyncio.Semaphore(BLOCKS)

    async def block_outputs(text: str, options: TextOptions) -> list[Candidate]:
        async with at_once:
            return await text_outputs(engine, text, options)

    blocks = _blocks(engine.generator, document, options)
    async with aclosing(in_order(itertools.starmap(block_outputs, blocks))) as found:
        return await render_outputs(engine, document, [candidates async for candidates in found])


async def document_texts(engine: Engine, document: Document, options: TextOptions) -> list[ListedText]:
    """The blocks of a document that is part of a list."""

    async def read(block: tuple[str, TextOptions]) -> ListedText:
        text, options = block
        return ListedText(engine, await read_text(engine, text, options), options)

    return await map_in_turns(read, _blocks(engine.generator, document, options))


async def render_outputs(engine: Engine, document: Document, outputs: Sequence[Sequence[Candidate]]) -> list[bytes]:
    """The outputs of a document by the best ones of each block: the k-th has the k-th best of each."""
    n = max(map(len, outputs), default=1)
    ranked = [[some[min(k, len(some) - 1)].markup for some in outputs] for k in range(n)]
    return await engine.in_text_thread(lambda: [document.render(some) for some in ranked])


def _blocks(generator: Generator, document: Document, options: TextOptions) -> list[tuple[str, TextOptions]]:
    """The text and options of each block; its context are the blocks before it, if the task reads any."""
    sources = [block.source for block in document.blocks]
    inputs = [Input(source.text, fields=options.fields) for source in sources]
    try:
        fields = [dict(one.fields) for one in map(generator.follower(), inputs)]
    except DataError as error:
        raise invalid(str(error)) from error
    return [
        (source.text, replace(options, fields=own, spans=source.spans))
        for source, own in zip(sources, fields, strict=True)
    ]
