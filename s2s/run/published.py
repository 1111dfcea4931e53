"""Models that other programs trained, as runs: what stands in their files becomes a run of its own.

`find_model` takes such a model wherever it takes a run; its run then lies in a cache, and is made again when a file of
the model has changed.
"""

from __future__ import annotations

__all__ = ["ModelFormat", "PublishedModel", "find_model", "import_model", "open_published"]

import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from s2s.checkpoint import step_name
from s2s.compose import arguments_of, compose
from s2s.compose.composition import recompose
from s2s.config import Config
from s2s.errors import CheckpointError
from s2s.io.atomic import sha256
from s2s.io.atomic_folder import new_folder
from s2s.io.lock import FileLock
from s2s.io.user_cache import cache_folder
from s2s.run.hub import CARDS, download, is_hub_name
from s2s.run.known_models import VERSION, known_run, record_run, stamps
from s2s.run.new_vocabulary import change_vocabulary
from s2s.run.origin import RECORD, Origin
from s2s.run.paths import find_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch import Tensor

    from s2s.model import Seq2Seq
    from s2s.plugin import Plugins
    from s2s.registry import Choice, Registry
    from s2s.vocab import Side

NO_LANGUAGES: Mapping[str, str | None] = MappingProxyType({})
NO_ROWS: Mapping[str, Sequence[str]] = MappingProxyType({})
BLOBS, MAX_CARD = "blobs", 1 << 23


class PublishedModel(ABC):
    """A model on disk in the format of another program."""

    title: str
    """What it is, in words, such as MarianMTModel"""
    files: Sequence[Path]
    """All files that are read"""
    options: Mapping[str, Any]
    """The options of s2s-train that describe it: task, arch, search, …"""
    notes: Sequence[str] = ()
    """Lines for the first screen, such as settings of the model that have no counterpart"""
    name: str
    """Of its folder or file, or on the hub; `open_published` sets this, `commit` and `kept`"""
    commit: str = ""
    """Of a model of the hub"""
    kept: Sequence[Path] = ()
    """Files that stay with the run: its licence and its model card"""

    new_rows: Mapping[str, Sequence[str]] = NO_ROWS
    """Tokens that the model does not have, such as codes of new languages: those of whose rows theirs are the mean"""

    @abstractmethod
    def tokenizer_options(self, folder: Path) -> Mapping[str, Any]:
        """Further options of the task, with which it learns the tokeniser: the files that it takes over.

        folder: an empty one, for files that have to be made of those of the model; it is removed afterwards.
        """

    @property
    @abstractmethod
    def tensors(self) -> Mapping[str, Tensor]:
        """The weights under their names there, each read when it is asked for."""

    @abstractmethod
    def load(self, model: Seq2Seq, arch: Choice, rows: Mapping[Side, Sequence[Sequence[int]]] | None) -> None:
        """Copy the weights into a model that was built from `options`; raises CheckpointError if they do not fit.

        rows: for each token of a side, of which rows its own is the mean; None: the vocabulary is the model's own.
        """

    def recorded(
        self, model: Seq2Seq, arch: Choice, rows: Mapping[Side, Sequence[Sequence[int]]] | None
    ) -> Mapping[str, Mapping[str, Tensor]]:
        """Further groups of tensors for the run's checkpoint, `int8` and `shortlist`: group -> name -> tensor.

        rows: as for `load`.
        """
        return {}


class ModelFormat(ABC):
    """A format of models: a built entry of the group `model_format`."""

    description: ClassVar[str]
    """What is read, for an error about another folder: "a folder with config.json of Hugging Face's transformers"."""
    weights: ClassVar[Sequence[str]]
    """Patterns of names, of which the first that a model on the hub has are its weights"""
    files: ClassVar[Sequence[str]]
    """Patterns of the names of what else is read"""

    @abstractmethod
    def open(
        self, path: Path, languages: Sequence[str], new_languages: Mapping[str, str | None], registry: Registry
    ) -> PublishedModel | None:
        """The model at a path; None if it is of another format; raises UserError for one that cannot be read.

        languages: of sources and targets, for a model with several; (): its own. new_languages: those that it does not
        have, each with the one that it begins as; None: as the mean of all.
        """


def open_published(
    name: str,
    registry: Registry,
    languages: Sequence[str] = (),
    new_languages: Mapping[str, str | None] = NO_LANGUAGES,
) -> PublishedModel:
    """The model at a path or, if there is none, of this name on the hub, by the first format that reads it.

    languages, new_languages: as for `ModelFormat.open`. Raises CheckpointError if no format reads it.
    """
    formats: list[ModelFormat] = [registry.build_default("model_format", n) for n in registry.names("model_format")]
    path, repo, commit = Path(name).expanduser(), "", ""
    if not os.path.lexists(path) and is_hub_name(name):  # Path's own raises on a name that is too long
        files = [pattern for one in formats for pattern in one.files]
        weights = [pattern for one in formats for pattern in one.weights]
        path, repo, commit = download(name, files, weights)
    for one in formats:
        if (model := one.open(path, languages, new_languages, registry)) is not None:
            model.name, model.commit = repo or path.resolve().name, commit
            _set_place(model, path if path.is_dir() else path.parent)
            return model
    what = "is no model that is read here" if path.exists() else "does not exist"
    raise CheckpointError(f"{path} {what}; what is read: {'; '.join(one.description for one in formats) or 'nothing'}")


def find_model(name: str, plugins: Plugins, option: str = "run") -> Path:
    """The directory of a run, as `find_run`, or of the run that a published model has become, at the path `name` or of
    this name on the hub."""
    try:
        return find_run(name, option)
    except CheckpointError as error:
        if not name or not (os.path.lexists(Path(name).expanduser()) or is_hub_name(name)):
            raise
        if (known := known_run(Path(name).expanduser(), plugins)) is not None:
            return known
        try:
            published = open_published(name, plugins.registry)
        except CheckpointError as other:
            raise CheckpointError(f"{error}{'' if str(error).endswith('.') else '.'} {other}") from None
    directory = _cached(published, plugins)
    record_run(Path(name).expanduser(), plugins, published.files, directory)
    return directory


def import_model(
    published: PublishedModel,
    directory: Path,
    plugins: Plugins,
    texts: Iterable[str] | None = None,
    tokens: Sequence[str] = (),
) -> None:
    """Write a run that has the model's configuration, tokeniser and weights, and needs its files no more.

    texts: the vocabulary is pruned to what they need, and they are read several times; None: it is whole. tokens: texts
    that become one token each. The run appears complete or not at all. Raises CheckpointError for weights that do not
    fit the configuration, and what composing it raises.
    """
    import tempfile

    from s2s.checkpoint.directory import save  # torch, which a wrong name does without
    from s2s.checkpoint.weights import narrow, size_limit
    from s2s.distributed import World
    from s2s.run.directory import RunDirectory

    options = {"run": str(directory), **published.options}
    composed = compose(Config, arguments_of(Config, options), plugins)
    config, registry = composed.config, plugins.registry
    with new_folder(directory) as folder, RunDirectory(folder) as run:
        run.begin(composed, plugins, World())
        entry = registry.get("task", config.task.name)
        task = entry.build(config.task)
        with tempfile.TemporaryDirectory(dir=folder) as files, tempfile.TemporaryDirectory(dir=folder) as learnt:
            taken_over = published.tokenizer_options(Path(files))
            learning = entry.build(recompose(config, {"task": taken_over}, plugins).task)
            learning.learn(Path(learnt))
            rows = change_vocabulary(learning, Path(learnt), published.new_rows, texts, tokens)
            task.load(Path(learnt))
            run.copy_tokenizer(Path(learnt))
        with size_limit(published.tensors, published.files[0]):
            model = plugins.hook.s2s_build_model(config=config, vocab=task.vocab, registry=registry)
        published.load(model, config.arch, rows)
        narrow(model, next(iter(published.tensors.values())).dtype)  # a file no larger than the one that was read
        recorded = published.recorded(model, config.arch, rows)
        save(run.checkpoints, step_name(0), {"model": model.state_dict(), **recorded}, {})
        Origin(
            title=published.title,
            name=published.name,
            commit=published.commit,
            files={str(file.absolute()): sha256(file) for file in published.files},
            kept=[file.name for file in published.kept],
            notes=published.notes,
        ).write(folder, published.kept)
        run.status("imported")


def _set_place(model: PublishedModel, folder: Path) -> None:
    """Set what stays with a run; raises CheckpointError for a file that is a link to somewhere else, or to itself."""
    cards = [file for pattern in CARDS for file in sorted(folder.glob(pattern)) if file.is_file()]
    places = (folder.resolve(), folder.resolve().parent.parent / BLOBS)  # the cache of the hub has links to the latter
    for file in (*model.files, *cards):
        if file.is_symlink() and not file.exists():
            raise CheckpointError(f"{file} is a link that leads nowhere")
        if not any(map(file.resolve().is_relative_to, places)):
            raise CheckpointError(f"{file} is a link to a file elsewhere, which is not read; put the file itself there")
    model.kept = [file for file in cards if file.stat().st_size <= MAX_CARD]
    too_large = [f"{file.name} is too large to be kept" for file in cards if file not in model.kept]
    model.notes = [*model.notes, *too_large]


def _cached(published: PublishedModel, plugins: Plugins) -> Path:
    """The run in the cache that was made of these files as they are now."""
    identity = hashlib.sha256(json.dumps([VERSION, stamps(published.files)]).encode()).hexdigest()
    try:
        cache = cache_folder("models")
        cache.mkdir(parents=True, exist_ok=True)
        directory = cache / f"{published.name.rpartition('/')[2] or 'model'}-{identity[:12]}"
        lock = FileLock(directory.with_name(f".{directory.name}.lock"))
        _wait_for(lock)
        try:
            if not (directory / RECORD).is_file():
                import_model(published, directory, plugins)
        finally:
            lock.release()
    except OSError as error:
        raise CheckpointError(
            f"{published.name} cannot be imported into the cache, {error}; name another one with XDG_CACHE_HOME, or "
            "give s2s-import model=… run=…"
        ) from error
    return directory


def _wait_for(lock: FileLock) -> None:
    """Take a lock when the process that has it, which imports the same model, has finished or died."""
    while lock.descriptor is None:
        try:
            lock.acquire()
        except CheckpointError:
            time.sleep(0.2)
