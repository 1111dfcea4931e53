"""Context: the previous texts of a document, which a task may read before each of its texts.

An example or an input says by the fields of `DocumentFields` where it stands. What is learnt and decoded is one text;
the previous sources of its document stand before it, each followed by a separator.
"""

from __future__ import annotations

__all__ = [
    "SEPARATOR",
    "DocumentFields",
    "PreviousTexts",
    "behind_context",
    "cut_context",
    "in_documents",
    "previous_texts",
    "with_document_fields",
]

from collections import deque
from dataclasses import dataclass, make_dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from s2s.errors import DataError
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

AnyPair = TypeVar("AnyPair", Example, Example | Rejected)
SEPARATOR = "<sep>"
"""The token behind each previous sentence"""


@dataclass(kw_only=True)
class DocumentFields:
    """Where a text stands, for a task with task.context."""

    document: Any = None
    """Its document: consecutive texts with the same one are context of one another."""
    doc: Any = None
    """The same, under the name that it has in many corpora."""
    position: int | None = None
    """Its number in the document, in ascending order; texts before a gap are no context of those behind it."""
    context: list[str] | None = None
    """The previous sentences, for a text that brings them with it; the last task.context of them are read."""

    def __post_init__(self) -> None:
        self.document = document_of({"document": self.document, "doc": self.doc})


def document_of(fields: Mapping[str, Any]) -> Any:
    """The document that fields name; None: none."""
    document = fields.get("document")
    return fields.get("doc") if document is None else document


def with_document_fields(others: type | None) -> type:
    """A dataclass of a task's other fields and those of documents."""
    return make_dataclass("Fields", [], bases=(others, DocumentFields), kw_only=True) if others else DocumentFields


class PreviousTexts:
    """Follows texts in their order, and gives for each the previous ones of its document."""

    def __init__(self, n: int, *, blank_ends: bool) -> None:
        """n: most previous texts of each.

        blank_ends: texts that name no document follow one another, and an empty one ends a document; otherwise such
        texts stand by themselves.
        """
        self.blank_ends = blank_ends
        self._texts: deque[str] = deque(maxlen=n)
        self._document: Any = None
        self._position: int | None = None

    def __call__(self, text: str, fields: Mapping[str, Any]) -> Any:
        """The texts before this one, or the `context` in its own fields; raises DataError for a wrong order."""
        position = fields.get("position")
        is_blank = not text.strip()
        self._begin(document_of(fields), position if isinstance(position, int) else None, is_blank=is_blank)
        previous = list(self._texts)
        if not is_blank:
            self._texts.append(text)
        explicit_context = fields.get("context")
        return previous if explicit_context is None else explicit_context

    def _begin(self, document: Any, position: int | None, *, is_blank: bool) -> None:
        """Drop the previous texts where a document begins, and before a gap."""
        is_new = document != self._document or (document is None and (is_blank or not self.blank_ends))
        if not is_new and position is not None and self._position is not None:
            if position <= self._position:
                raise DataError(
                    f"document {document}: position {position} follows {self._position}; sort the sentences of each "
                    "document, and give each a position of its own"
                )
            is_new = position != self._position + 1
        if is_new:
            self._texts.clear()
        self._document, self._position = document, position


def previous_texts(fields: Mapping[str, Any], n: int) -> list[str]:
    """The last `n` texts of the context in these fields, without blank ones."""
    return [text for text in fields.get("context") or () if text.strip()][-n:]


def behind_context(
    sources: Sequence[list[int]],
    contexts: Sequence[Sequence[str]],
    encode: Callable[[Sequence[str]], list[list[int]]],
    separator: int,
) -> list[list[int]]:
    """Ids of sources behind those of their contexts, each text with `separator` behind it; an empty source stays so."""
    texts = list(dict.fromkeys(chain.from_iterable(contexts)))
    encoded = {text: [*ids, separator] for text, ids in zip(texts, encode(texts), strict=True)}
    return [
        [*chain.from_iterable(encoded[text] for text in some), *ids] if ids else []
        for some, ids in zip(contexts, sources, strict=True)
    ]


def cut_context(ids: Sequence[int], most: int, separator: int | None) -> list[int]:
    """Ids of `behind_context` without their earliest texts, until at most `most` are left, or the source alone."""
    ids = list(ids)
    while len(ids) > most and separator in ids:
        ids = ids[ids.index(separator) + 1 :]
    return ids


def in_documents(pairs: Iterable[AnyPair], n: int, place: str, *, blank_ends: bool = False) -> Iterator[AnyPair]:
    """The examples with the `n` sources before them as context; a rejected pair is none. `place` is for errors."""
    follow = PreviousTexts(n, blank_ends=blank_ends)
    for number, one in enumerate(pairs, 1):
        if isinstance(one, Rejected):
            yield one
            continue
        try:
            context = follow(one.src, one.fields)
        except DataError as error:
            raise DataError(f"{place}, example {number:,}: {error}") from None
        yield replace(one, fields={**one.fields, "context": context})
