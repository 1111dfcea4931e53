"""Archives with the members that a catalogue's corpus has, of made-up lines, and the corpus made of them."""

from __future__ import annotations

__all__ = ["corpus_of_made_up_files", "tar_of", "zip_of"]

import gzip
import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from s2s_named_corpora import CatalogueConfig
from s2s_named_corpora.catalogue import load_catalogue
from s2s_named_corpora.corpus import CatalogueCorpus
from s2s_named_corpora.remote_file import Expected, RemoteFile

if TYPE_CHECKING:
    from pathlib import Path

    from s2s_named_corpora.catalogue import Recipe, Source, Text


def tar_of(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    """A tar archive, the same bytes at any time."""
    if mode == "w:gz":
        return gzip.compress(tar_of(members, "w"), mtime=0)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def corpus_of_made_up_files(name: str, recipe: str, folder: Path, n_lines: int, **options: Any) -> CatalogueCorpus:
    """A corpus of the catalogue whose files are made up in `folder`: line i of a member is "LANGUAGE MEMBER i"."""
    entry = load_catalogue().entries[name]
    chosen = entry.recipe(recipe)
    members = dict[str, dict[str, str]]()
    for texts in chosen.splits.values():
        for text in texts:
            for language, source in text.sides.items():
                members.setdefault(source.file.urls[0], {})[source.member] = language
    made = {url: _file(url, wanted, folder, n_lines) for url, wanted in members.items()}
    changed = replace(entry, recipes={recipe: _changed(chosen, made, n_lines)})
    return CatalogueCorpus(CatalogueConfig(name="catalogue", of=name, recipe=recipe, **options), changed)


def _file(url: str, members: dict[str, str], folder: Path, n_lines: int) -> RemoteFile:
    bodies = {name: _lines(name, language, n_lines) for name, language in members.items()}
    others = {"other/europarl.de-en.de": b"unwanted\n", "README": b"about"}
    path = folder / url.rpartition("/")[2]
    data = tar_of({**bodies, **others}, "w" if path.suffix == ".tar" else "w:gz")
    path.write_bytes(data)
    return RemoteFile(urls=(path.as_uri(),), expected=Expected(hashlib.sha256(data).hexdigest(), "", len(data)))


def _lines(name: str, language: str, n_lines: int) -> bytes:
    text = "".join(f"{language} {name.rpartition('/')[2]} {i}\n" for i in range(1, n_lines + 1)).encode()
    return gzip.compress(text, mtime=0) if name.endswith(".gz") else text


def _changed(recipe: Recipe, made: dict[str, RemoteFile], n_lines: int) -> Recipe:
    def source(old: Source) -> Source:
        return old._replace(file=made[old.file.urls[0]], md5="")

    def text(old: Text) -> Text:
        return replace(old, sides={language: source(one) for language, one in old.sides.items()}, lines=n_lines)

    return replace(recipe, splits={split: [text(one) for one in texts] for split, texts in recipe.splits.items()})
