"""Corpora of downloaded texts: what all have in common, those of the catalogue, and those of OPUS."""

from __future__ import annotations

__all__ = ["CatalogueCorpus", "DownloadedCorpus", "OpusCorpus", "pairs_of"]

import hashlib
import json
import re
import sys
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from s2s import ConfigError, Corpus, DataError, Example, Rejected, load_plugins
from s2s_named_corpora.catalogue import CatalogueEntry, Recipe, Source, Text, load_catalogue, sources_of
from s2s_named_corpora.downloads import Downloads, downloads_folder
from s2s_named_corpora.remote_file import RemoteFile
from s2s_named_corpora.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from s2s_named_corpora import CatalogueConfig, NamedConfig, OpusConfig

OPUS = "https://object.pouta.csc.fi/OPUS-{corpus}/{version}/moses/{pair}.txt.zip"
OPUS_NAME = re.compile(r"([\w-]+)/(v?[\w-]+(?:\.\w+)*)(?:/(\w+)-(\w+))?", re.ASCII)
N_NAMED = 8


class DownloadedCorpus(Corpus):
    """A corpus of remote files."""

    licence: str
    citation: str

    def __init__(self, config: NamedConfig) -> None:
        self.config = config
        self.downloads = Downloads(downloads_folder(), offline=config.offline, pin=config.pin, report=_report)

    @abstractmethod
    def remote_files(self, split: str) -> Sequence[RemoteFile]:
        """The files of a split, each once."""

    def check_licence(self) -> None:
        """Raise DataError if the user accepts others only."""
        accepted = self.config.licences
        if accepted and self.licence not in accepted:
            raise DataError(f"{self.config.of}: its licence is «{self.licence}», and licences={accepted} are accepted")

    @property
    def languages(self) -> tuple[str, str]:
        """Of source and target; raises ConfigError if they are not given."""
        src, tgt = self.config.src_lang, self.config.tgt_lang
        if not src or not tgt:
            raise ConfigError(f"{self.config.of} has many languages: give task.src_lang=… task.tgt_lang=…")
        return src, tgt

    def version(self, split: str) -> str:
        """A hash of the files that the examples are made of, and of all else that decides them."""
        stamp = [*(file.identity for file in self.remote_files(split)), *self.stamp(split)]
        return hashlib.sha256(json.dumps(stamp).encode()).hexdigest()[:16]

    def stamp(self, split: str) -> Sequence[Any]:
        """What decides the examples beside options and files, as JSON."""
        return ()

    def settings(self) -> dict[str, Any]:
        """The options that decide the examples."""
        options = {**vars(self.config)}
        for name in ("name", "offline", "pin", "licences"):
            del options[name]
        return options

    def pending(self, split: str) -> Sequence[str]:
        """What would be downloaded, with licence and citation; nothing if all is there."""
        self.check_licence()
        files = [file for file in self.remote_files(split) if not self.downloads.is_here(file)]
        if not files:
            return []
        sizes = [self.downloads.expected(file).n_bytes for file in files]
        total = sum(size or 0 for size in sizes)
        unknown = sum(size is None for size in sizes)
        number = f"{len(files)} file{'s' if len(files) > 1 else ''}"
        at_least = f", {unknown} of them of unknown size" if unknown else ""
        return [
            f"{self.config.of}: to download: {total:,} bytes in {number}{at_least}",
            f"  into {self.downloads.folder}",
            *(f"  {_size(size)}  {file.urls[0]}{self._state(file)}" for file, size in zip(files, sizes, strict=True)),
            f"  licence: {self.licence}",
            f"  cite: {self.citation}",
        ]

    def describe(self) -> Iterable[str]:
        """Its licence, which stays in the log of a run."""
        yield f"licence: {self.licence}; cite: {self.citation}"

    def _state(self, file: RemoteFile) -> str:
        return "" if self.downloads.expected(file).is_hashed else "  (no known hash: pin=true accepts it)"


def _size(n_bytes: int | None) -> str:
    return "unknown size" if n_bytes is None else f"{n_bytes:,} bytes"


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def pairs_of(files: Sequence[Path], split: str, **options: Any) -> Iterator[Example | Rejected]:
    """The pairs in two parallel files, or in one of pairs."""
    entry = load_plugins().registry.get("corpus", "parallel")
    config: Any = entry.config
    yield from entry.build(config(name=entry.name, files=[str(file) for file in files], **options)).examples(split)


class CatalogueCorpus(DownloadedCorpus):
    """A corpus of the catalogue, by one of its recipes."""

    config: CatalogueConfig

    def __init__(self, config: CatalogueConfig, entry: CatalogueEntry | None = None) -> None:
        super().__init__(config)
        entries = load_catalogue().entries
        if entry is None and config.of not in entries:
            raise ConfigError(
                f"of={config.of}: not in the catalogue, which has {', '.join(sorted(entries)[:N_NAMED])}, …"
            )
        self.entry = entry or entries[config.of]
        self.licence, self.citation = self.entry.licence, self.entry.citation
        self.recipe = self.entry.recipe(config.recipe)

    @property
    def languages(self) -> tuple[str, str]:
        """As the task says, else as the catalogue; nothing where texts are tables."""
        if not self.entry.languages:
            return "", ""
        src, tgt = self.entry.languages
        return self.config.src_lang or src, self.config.tgt_lang or tgt

    def texts(self, split: str) -> Sequence[Text]:
        """Those that a split is made of; raises DataError where it has none."""
        if split in self.recipe.splits:
            return self.recipe.splits[split]
        if split == "valid" and self.recipe.held_out:
            return self.recipe.splits["train"]
        has = [*self.recipe.splits, *(["valid"] if self.recipe.held_out else [])]
        raise DataError(f"{self.config.of} has no text for {split}, only for {' and '.join(has)}")

    def remote_files(self, split: str) -> Sequence[RemoteFile]:
        """The archives and files of the texts."""
        return list({one.file.key: one.file for one in sources_of(self.texts(split), self.languages)}.values())

    def stamp(self, split: str) -> Sequence[Any]:
        """The members, and how the recipe divides and changes them."""
        members = [source.member for source in sources_of(self.texts(split), self.languages)]
        return [*members, *self.languages, self.recipe.held_out, self.recipe.normalize, split]

    def examples(self, split: str) -> Iterator[Example | Rejected]:
        """The pairs of all texts in their order, without or with those that are held out."""
        self.check_licence()
        made = Texts(self.downloads, count=self.config.count).make(self.texts(split), self.languages)
        pairs = (pair for files in made for pair in pairs_of(files, split, invalid=self.config.invalid))
        if every := self.recipe.held_out:
            wanted = split == "valid"
            pairs = (pair for n, pair in enumerate(pairs, 1) if (n % every == 0) == wanted)
        return map(_normalizer(self.languages), pairs) if self.recipe.normalize else pairs


def _normalizer(languages: Sequence[str]) -> Callable[[Example | Rejected], Example | Rejected]:
    """Punctuation as Moses' scripts normalise it, and no control characters."""
    from sacremoses import MosesPunctNormalizer

    src, tgt = (MosesPunctNormalizer(lang=language, post_remove_control_chars=True).normalize for language in languages)
    return lambda pair: pair if isinstance(pair, Rejected) else replace(pair, src=src(pair.src), tgt=tgt(pair.tgt))


class OpusCorpus(CatalogueCorpus):
    """A corpus of OPUS for a pair of languages; its hash is not published, so that it has to be pinned."""

    config: CatalogueConfig

    def __init__(self, config: OpusConfig) -> None:
        from s2s_named_corpora import CatalogueConfig

        options = {name: value for name, value in vars(config).items() if name != "name"}
        super().__init__(CatalogueConfig(name=config.name, **options), _opus_entry(config))


def _opus_entry(config: OpusConfig) -> CatalogueEntry:
    """The entry of a catalogue for a corpus that none has; raises ConfigError for a name of another form."""
    match = OPUS_NAME.fullmatch(config.of)
    if not match:
        raise ConfigError(f"opus:{config.of}: expected opus:CORPUS/VERSION or opus:CORPUS/VERSION/en-de")
    corpus, version, *given = match.groups(default="")
    src, tgt = config.src_lang or given[0], config.tgt_lang or given[1]
    if not src or not tgt:
        raise ConfigError(f"opus:{config.of}: of which languages? Give task.src_lang=… task.tgt_lang=…")
    if all(given) and {src, tgt} != set(given):
        raise ConfigError(f"opus:{config.of} has no {src}-{tgt}")
    pair = "-".join(sorted((src, tgt)))
    file = RemoteFile(
        urls=(OPUS.format(corpus=corpus, version=version, pair=pair),),
        if_gone=f"https://opus.nlpl.eu lists the versions and languages of {corpus}",
    )
    sides = {language: Source(file, f"{corpus}.{pair}.{language}") for language in (src, tgt)}
    return CatalogueEntry(
        name=f"opus:{config.of}",
        languages=(src, tgt),
        licence=f"as https://opus.nlpl.eu states for {corpus}",
        citation="Tiedemann (2012): Parallel Data, Tools and Interfaces in OPUS",
        recipes={"all": Recipe(splits={split: [Text(sides=sides)] for split in ("train", "valid", "test")})},
    )
