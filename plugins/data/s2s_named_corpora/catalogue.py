"""The catalogue: files, texts of two sides made of them, and corpora made of texts, from the YAML files beside it."""

from __future__ import annotations

__all__ = ["Catalogue", "CatalogueEntry", "Recipe", "Text", "load_catalogue", "sources_of"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from s2s import DataError, did_you_mean
from s2s_named_corpora.remote_file import Expected, RemoteFile

FOLDER = Path(__file__).parent / "catalogue"


class Source(NamedTuple):
    """Where one side of a text is: a file, or a member of an archive."""

    file: RemoteFile
    member: str = ""
    md5: str = ""
    """Of the text itself, beside that of its archive"""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Aligned lines in several languages, or one table of pairs."""

    sides: Mapping[str, Source] = field(default_factory=dict)
    """Language -> its lines"""
    table: Source | None = None
    lines: int | None = None
    """Of each side; None: unknown here"""

    def sources(self, languages: Sequence[str]) -> list[Source]:
        """The sides of these languages, or the table; raises DataError for a language that it does not have."""
        if self.table is not None:
            return [self.table]
        for language in languages:
            if language not in self.sides:
                raise DataError(f"there is no side '{language}', but {' and '.join(self.sides)}")
        return [self.sides[language] for language in languages]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Which texts a corpus is made of, in their order, for each split."""

    splits: Mapping[str, Sequence[Text]]
    held_out: int = 0
    """Every so many-th pair of the training texts is not for training, but for validation; 0: none"""
    normalize: bool = False
    """Moses' normalisation of punctuation, and no control characters"""


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A corpus with its recipes, the first of which is its default."""

    name: str
    languages: tuple[str, str] | tuple[()]
    """Source and target, unless the task says otherwise; (): neither has one"""
    licence: str
    citation: str
    recipes: Mapping[str, Recipe]

    def recipe(self, name: str) -> Recipe:
        """That of a name, the default for none; raises DataError that lists them."""
        chosen = name or next(iter(self.recipes))
        if chosen not in self.recipes:
            raise DataError(f"recipe={name}: no such recipe of {self.name}.{did_you_mean(name, self.recipes)}")
        return self.recipes[chosen]


class Catalogue(NamedTuple):
    """All that the YAML files name."""

    files: Mapping[str, Mapping[str, RemoteFile]]
    """Name of a YAML file -> its remote files by name"""
    entries: Mapping[str, CatalogueEntry]
    names: Mapping[str, str]
    """Further names -> those by source, such as opus:Tatoeba/v2023-04-12"""
    withdrawn: Mapping[str, str]
    """Beginnings of names -> why there is nothing, and what to use instead"""


@cache
def load_catalogue(folder: Path = FOLDER) -> Catalogue:
    """The catalogue in a folder of YAML files; read once."""
    remote, entries = dict[str, dict[str, RemoteFile]](), dict[str, CatalogueEntry]()
    names, withdrawn = dict[str, str](), dict[str, str]()
    for path in sorted(folder.glob("*.yaml")):
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        files = {name: _file(one, read.get("if_gone", "")) for name, one in read.get("files", {}).items()}
        remote[path.stem] = files
        entries |= _entries(read, files)
        names |= read.get("names", {})
        withdrawn |= read.get("withdrawn", {})
    return Catalogue(remote, entries, names, withdrawn)


def sources_of(texts: Sequence[Text], languages: Sequence[str]) -> list[Source]:
    """What has to be there for these texts in these languages."""
    return [source for text in texts for source in text.sources(languages)]


def _entries(read: Mapping[str, Any], files: Mapping[str, RemoteFile]) -> dict[str, CatalogueEntry]:
    texts = {name: _text(one, files) for name, one in read.get("texts", {}).items()}
    return {
        name: CatalogueEntry(
            name=name,
            languages=tuple(one.get("languages", ())),
            licence=read["licence"],
            citation=read["citation"],
            recipes={key: _recipe(recipe, texts) for key, recipe in one["recipes"].items()},
        )
        for name, one in read.get("corpora", {}).items()
    }


def _file(one: Mapping[str, Any], if_gone: str) -> RemoteFile:
    expected = Expected(
        one.get("sha256", ""), one.get("md5", ""), one.get("bytes"), unpacked_sha256=one.get("unpacked_sha256", "")
    )
    return RemoteFile(urls=tuple(one["urls"]), expected=expected, if_gone=if_gone)


def _text(one: Mapping[str, Any], files: Mapping[str, RemoteFile]) -> Text:
    md5 = one.get("md5", {})

    def source(name: str, language: str = "") -> Source:
        file, _, member = name.partition(":")
        return Source(files[file], member, md5.get(language, ""))

    sides = {language: source(name, language) for language, name in one.get("sides", {}).items()}
    return Text(sides=sides, table=source(one["table"]) if "table" in one else None, lines=one.get("lines"))


def _recipe(one: Mapping[str, Any], texts: Mapping[str, Text]) -> Recipe:
    splits = {split: [texts[name] for name in one[split]] for split in ("train", "valid", "test") if split in one}
    return Recipe(splits=splits, held_out=one.get("held_out", 0), normalize=one.get("normalize", False))
