"""Paragraphs of LibreOffice's help, aligned by page and id, from Debian's packages or where they are installed."""

from __future__ import annotations

__all__ = ["LibreOfficeHelp"]

import hashlib
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, DataError, Example, Rejected
from s2s.io import expand_user
from s2s_named_corpora.archives import read_tree
from s2s_named_corpora.catalogue import load_catalogue
from s2s_named_corpora.corpus import DownloadedCorpus
from s2s_named_corpora.help_page import paragraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from s2s_named_corpora import LibreOfficeConfig
    from s2s_named_corpora.remote_file import RemoteFile

SUFFIX = ".html"
IN_PACKAGE = "usr/share/libreoffice/help/"
TEXT = "/text/"
N_PARTS, VALID, TEST = 100, 2, 5
"""Pages are divided by a hash of their names: parts 0 and 1 are for validation, 2 to 4 for tests, others to train on"""
SHORT = 3
"""Words up to which a translation may equal its source, as names do"""
UNTRANSLATED, EMPTY = Rejected("not translated"), Rejected("empty")


class LibreOfficeHelp(DownloadedCorpus):
    """Pairs of paragraphs with the page as their document, in the order of the source's pages."""

    config: LibreOfficeConfig
    licence = "MPL-2.0"
    citation = "LibreOffice contributors: LibreOffice Help, as in Debian's packages libreoffice-help-*"

    def __init__(self, config: LibreOfficeConfig) -> None:
        config.of = "libreoffice_help"
        super().__init__(config)

    def remote_files(self, split: str) -> Sequence[RemoteFile]:
        """The packages of both languages, unless they are here."""
        if self.config.packages:
            return []
        known = load_catalogue().files["libreoffice_help"]
        for language in self.languages:
            if _package(language) not in known:
                raise ConfigError(f"libreoffice_help has no '{language}', but {', '.join(known)}")
        return [known[_package(language)] for language in self.languages]

    def stamp(self, split: str) -> Sequence[Any]:
        """Languages and split, and the local files by their sizes."""
        local = [(str(path), path.stat().st_size) for path in map(self._local, self.languages) if path is not None]
        return [*self.languages, split, self.config.markup, *local]

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """Every paragraph of the source's pages of the split that has a translation under its id."""
        self.check_licence()
        src_pages, tgt_pages = (self._pages(number, split) for number in (0, 1))
        translated = {page: dict(paragraphs(html, markup=self.config.markup)) for page, html in tgt_pages}
        for page, html in src_pages:
            texts = translated.get(page, {})
            for key, src in paragraphs(html, markup=self.config.markup):
                yield _pair(src, texts.get(key, ""), page)

    def _pages(self, number: int, split: str) -> Iterator[tuple[str, str]]:
        """The pages of a language in a split, with their names below its folder, sorted."""
        path = self._local(self.languages[number])
        if path is None:
            path = self.downloads.fetch(self.remote_files("train")[number])
        found = _installed(path) if path.is_dir() else _packed(path)
        for name, data in sorted((name, data) for name, data in found if _split_of(name) == split):
            yield name, data.decode("utf-8", "replace")

    def _local(self, language: str) -> Path | None:
        """The package or folder of a language that the user names; None: it is downloaded."""
        if not self.config.packages:
            return None
        folder = expand_user(self.config.packages, "packages")
        names = [*folder.glob("*")] if folder.is_dir() else []
        wanted = _package(language)
        for path in sorted(names):
            if path.is_dir() and _package(path.name) == wanted:
                return path
            if path.name.startswith(f"libreoffice-help-{wanted}_") and path.suffix == ".deb":
                return path
        both = " ".join(f"libreoffice-help-{_package(one)}" for one in self.languages)
        raise DataError(
            f"packages={folder}: neither a folder '{language}' nor libreoffice-help-{wanted}_….deb is in it; "
            f"apt-get download {both}"
        )


def _package(language: str) -> str:
    """The end of a package's name: en -> en-us, pt-BR -> pt-br."""
    return "en-us" if language == "en" else language.lower().replace("_", "-")


def _installed(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in (folder / "text").rglob(f"*{SUFFIX}"):
        yield path.relative_to(folder / "text").as_posix(), path.read_bytes()


def _packed(package: Path) -> Iterator[tuple[str, bytes]]:
    for name, data in read_tree(package, SUFFIX):
        _, found, inner = name.removeprefix(IN_PACKAGE).partition(TEXT)
        if name.startswith(IN_PACKAGE) and found:
            yield inner, data


def _split_of(page: str) -> str:
    part = int.from_bytes(hashlib.sha256(page.encode()).digest()[:4], "big") % N_PARTS
    return "valid" if part < VALID else "test" if part < TEST else "train"


def _pair(src: str, tgt: str, page: str) -> Example | Rejected:
    if not any(character.isalpha() for character in src):
        return EMPTY
    if not tgt or (src.casefold() == tgt.casefold() and len(src.split()) > SHORT):
        return UNTRANSLATED
    return Example(src, tgt, {"document": page})
