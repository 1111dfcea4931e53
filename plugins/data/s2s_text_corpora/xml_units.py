"""Units of an XML file one after the other, however large the file is; no entity is declared, nothing is fetched."""

from __future__ import annotations

__all__ = ["Element", "units"]

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat

from s2s import DataError
from s2s.data import open_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

CHUNK = 1 << 16
MAX_DEPTH = 200
MAX_CHARACTERS = 1 << 23
"""Of a unit"""


@dataclass
class Element:
    """An element inside of a unit; names have no prefixes, but those of attributes do."""

    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def elements(self, name: str) -> list[Element]:
        """The children of a name."""
        return [child for child in self.children if isinstance(child, Element) and child.name == name]

    def text(self, without: Collection[str]) -> str:
        """The text inside, without elements of some names; blanks and line ends are one blank each."""
        return " ".join("".join(self._texts(without)).split())

    def _texts(self, without: Collection[str]) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.name not in without:
                yield from child._texts(without)


def units(
    path: Path, names: Collection[str], outer: Callable[[str, Mapping[str, str]], None]
) -> Iterator[tuple[int, Element]]:
    """Every outermost element of these names, with its line; `outer` gets the names and attributes of those around.

    Raises DataError for XML that is not well-formed, and for what would fill memory.
    """
    parser = _Parser(path, names, outer)
    with open_bytes(path, text=False) as file:
        while chunk := file.read(CHUNK):
            parser.feed(chunk)
            yield from parser.complete()
        parser.feed(b"")
        yield from parser.complete()


class _Parser:
    """expat, with the unit that is open."""

    def __init__(self, path: Path, names: Collection[str], outer: Callable[[str, Mapping[str, str]], None]) -> None:
        self.path, self.names, self.outer = path, names, outer
        self.done: list[tuple[int, Element]] = []
        self.open: list[Element] = []
        self.begun = self.depth = self.n_characters = 0
        parser = self.parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.SkippedEntityHandler = self._entity
        parser.EntityDeclHandler = self._declared

    def feed(self, data: bytes) -> None:
        """Parse some bytes; none: the end."""
        try:
            self.parser.Parse(data, not data)
        except expat.ExpatError as error:
            raise self._error(f"not well-formed ({expat.ErrorString(error.code)})") from None
        except (ValueError, LookupError) as error:  # encodings of several bytes
            raise DataError(f"{self.path}: {error}; convert it to UTF-8 with iconv") from None

    def complete(self) -> list[tuple[int, Element]]:
        """The units that have ended since the last call."""
        done, self.done = self.done, []
        return done

    def _error(self, what: str) -> DataError:
        return DataError(f"{self.path}:{self.parser.CurrentLineNumber}: {what}")

    def _start(self, qualified: str, attributes: Mapping[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} elements within one another")
        name = qualified.rpartition(":")[2]
        if not self.open and name not in self.names:
            self.outer(name, attributes)
            return
        element = Element(name, dict(attributes))
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.begun, self.n_characters = self.parser.CurrentLineNumber, 0
        self.open.append(element)

    def _end(self, qualified: str) -> None:
        self.depth -= 1
        if self.open:
            element = self.open.pop()
            if not self.open:
                self.done.append((self.begun, element))

    def _text(self, text: str) -> None:
        if self.open:
            self.n_characters += len(text)
            if self.n_characters > MAX_CHARACTERS:
                raise self._error(f"a unit of more than {MAX_CHARACTERS:,} characters")
            self.open[-1].children.append(text)

    def _entity(self, name: str, is_parameter: bool) -> None:
        """One that a file elsewhere declares, as HTML's are; that file is not read."""
        text = html.unescape(f"&{name};")
        if not is_parameter:
            if text == f"&{name};":
                raise self._error(f"the entity {text} is not known")
            self._text(text)

    def _declared(self, name: str, *_: object) -> None:
        raise self._error(f"declares an entity ({name}); entities are not read, since a few may fill memory")
