"""The texts and pages of a request to LibreTranslate's /translate, which is searched as one list."""

from __future__ import annotations

__all__ = ["Query", "translations"]

from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from s2s_serve.documents import document_texts, render_outputs
from s2s_serve.generating import ListedText, TextOptions, list_outputs, read_text
from s2s_serve.turns import map_in_turns

if TYPE_CHECKING:
    from s2s.generation import Candidate
    from s2s.text import Document
    from s2s_serve.languages import Direction


class Query(NamedTuple):
    """A text, or page, of a request to /translate."""

    direction: Direction | None
    """None: it is in the target's language already"""
    text: str
    page: Document | None
    nbest: int

    async def read(self) -> list[ListedText]:
        """What is searched for it."""
        if self.direction is None:
            return []
        engine, options = self.direction.engine, TextOptions(nbest=self.nbest, fields=dict(self.direction.fields))
        if self.page is not None:
            return await document_texts(engine, self.page, options)
        return [ListedText(engine, await read_text(engine, self.text, options), options)]

    async def write(self, outputs: list[list[Candidate]]) -> list[str]:
        """The translation and its alternatives, from the outputs of what is searched."""
        if self.direction is None:
            return [self.text]
        if self.page is None:
            return [candidate.hyp for candidate in outputs[0]]
        pages = await render_outputs(self.direction.engine, self.page, outputs)
        return [page.decode("utf-8-sig") for page in pages]


async def translations(queries: list[Query]) -> list[list[str]]:
    """The translation of each, and its alternatives; raises RefusedError unless there is room for all of them."""
    read = await map_in_turns(Query.read, queries)
    async with aclosing(list_outputs([text for texts in read for text in texts])) as found:

        async def written(query: Query, texts: list[ListedText]) -> list[str]:
            return await query.write([await anext(found) for _ in texts])

        return await map_in_turns(lambda pair: written(*pair), zip(queries, read, strict=True))
