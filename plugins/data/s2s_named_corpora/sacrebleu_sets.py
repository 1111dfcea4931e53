"""The test sets of sacreBLEU. It would take a file that a killed process left half, so we download them.

Its table has names, addresses and md5; its readers make texts of SGML, XML and tables, so that ours are those that it
scores.
"""

from __future__ import annotations

__all__ = ["SacrebleuCorpus"]

import copy
import hashlib
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from s2s import ConfigError, DataError, did_you_mean
from s2s.io import new_folder
from s2s_named_corpora.archives import copy_members
from s2s_named_corpora.corpus import DownloadedCorpus, pairs_of
from s2s_named_corpora.remote_file import Expected, RemoteFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from s2s import Example, Rejected
    from s2s_named_corpora import SacrebleuConfig

ARCHIVES = (".tgz", ".tar.gz", ".zip", ".tar")
TITLE = re.compile(r"title\s*=\s*[{\"]+(.*?)[}\"]+,", re.DOTALL)
"""In an entry of BibTeX"""
COLUMN = re.compile(r"^\d+:")
"""Before the name of a table of which sacreBLEU reads a column"""


class SacrebleuCorpus(DownloadedCorpus):
    """One test set in one direction; of several references, the first."""

    config: SacrebleuConfig
    licence = "as the organisers of the test set state; it is for evaluation"

    def __init__(self, config: SacrebleuConfig) -> None:
        super().__init__(config)
        from sacrebleu.dataset import DATASETS  # a third of a second

        if config.of not in DATASETS:
            raise ConfigError(
                f"sacrebleu:{config.of}: no such test set of sacreBLEU.{did_you_mean(config.of, DATASETS)}"
            )
        dataset: Any = DATASETS[config.of]
        self.dataset = dataset
        first = re.search(r"title\s*=\s*[{\"]+(.*?)[}\"]+,", self.dataset.citation or "", re.DOTALL)
        self.citation = (
            " ".join(first[1].replace("{", "").replace("}", "").split()) if first else self.dataset.description
        )

    @property
    def direction(self) -> str:
        """As sacreBLEU names it; raises ConfigError with the others where the set does not have it."""
        src, tgt = self.languages
        direction = f"{src}-{tgt}"
        if direction not in self.dataset.langpairs:
            has = ", ".join(sorted(self.dataset.langpairs))
            raise ConfigError(f"sacrebleu:{self.config.of} has no {direction}, but {has}")
        return direction

    def remote_files(self, split: str) -> Sequence[RemoteFile]:
        """All files of the set, which are small; raises ConfigError where it does not have the direction."""
        assert self.direction
        hashes = self.dataset.md5 or [""] * len(self.dataset.data)
        return [
            RemoteFile(urls=(url,), expected=Expected("", md5 or ""))
            for url, md5 in zip(self.dataset.data, hashes, strict=True)
        ]

    def stamp(self, split: str) -> Sequence[Any]:
        """Which members are read, and by which class."""
        return [self.direction, str(self.dataset.langpairs[self.direction]), type(self.dataset).__name__]

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """Sources with their first reference."""
        self.check_licence()
        key = hashlib.sha256(f"{self.config.of} {self.version(split)}".encode()).hexdigest()[:16]
        folder = self.downloads.folder / "sets" / f"{key}-{self.direction}"
        src, tgt = (folder / f"text.{language}" for language in self.languages)
        with self.downloads.locked(folder):
            if not (src.is_file() and tgt.is_file()):
                self._make(folder, split)
        yield from pairs_of([src, tgt], split, invalid=self.config.invalid)

    def _make(self, folder: Path, split: str) -> None:
        """Download the files, and let sacreBLEU read them."""
        archives = [self.downloads.fetch(file) for file in self.remote_files(split)]
        with new_folder(folder) as new:
            raw = new / "raw"
            for archive, url in zip(archives, self.dataset.data, strict=True):
                self._unpack(archive, urlsplit(url).path, raw)
            dataset = copy.copy(self.dataset)
            dataset._rawdir, dataset._outdir = str(raw), str(new)
            dataset.maybe_download = lambda: None  # it is there
            try:
                files = dataset.get_files(self.direction)
                references = dataset.get_reference_files(self.direction)
            except (OSError, ValueError, IndexError, KeyError, SyntaxError) as error:
                raise DataError(f"sacrebleu:{self.config.of}: cannot be read: {error}") from None
            source = files[dataset.fieldnames(self.direction).index("src")]
            for file, language in zip((source, references[0]), self.languages, strict=True):
                os.replace(file, new / f"text.{language}")  # noqa: PTH105  beside the others in this folder
            shutil.rmtree(raw)

    def _unpack(self, archive: Path, url: str, raw: Path) -> None:
        """Copy the members that this direction reads to where sacreBLEU looks for them."""
        own_name = f"{self.config.of.replace('/', '_')}.{PurePosixPath(url).name}"
        wanted = self._members()
        if not url.endswith(ARCHIVES):
            raw.mkdir(exist_ok=True)
            shutil.copyfile(archive, raw / own_name)
            return
        inside = {name: raw / f"{number}" for number, name in enumerate(wanted) if name != own_name}
        raw.mkdir(exist_ok=True)
        copy_members(archive, inside, optional=True)
        for name, path in inside.items():
            if path.is_file():
                place = raw / _inside(name)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.rename(place)

    def _members(self) -> list[str]:
        given = self.dataset.langpairs[self.direction]
        names = [given["path"]] if isinstance(given, dict) else given
        return list(dict.fromkeys(COLUMN.sub("", name) for name in names))


def _inside(name: str) -> PurePosixPath:
    """A member's name, if it is one inside of a folder; raises DataError otherwise."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"{name} is no name inside of an archive")
    return path
