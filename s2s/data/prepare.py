"""Raw examples to a folder that training maps into memory: tokeniser, corpora, manifest.

The folder's name holds a hash of every setting, its manifest the hash of every input file. So it is made once,
found by whoever asks for the same, and made anew when an input has changed. It is built under another name and
renamed when complete: whenever a process dies, the folder is whole or not there.
"""

from __future__ import annotations

__all__ = ["Prepared", "prepare"]

import fcntl
import hashlib
import json
import os
import shutil
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from s2s.data.corpus import Corpus, CorpusWriter
from s2s.data.encoding import CorpusReport, encode_corpus, n_workers
from s2s.data.inputs import is_unchanged, is_untouched, stamp
from s2s.data.publish import publish
from s2s.data.recipe import MANIFEST, Manifest, Recipe
from s2s.errors import DataError
from s2s.io.atomic import NO_LOCKS, write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from s2s.config import DataConfig
    from s2s.task import Task

TOKENIZER = "tokenizer"


@dataclass(frozen=True)
class Prepared:
    """A complete folder, open."""

    directory: Path
    train: list[tuple[Corpus, float]]
    """Corpora with their weights"""
    valid: list[Corpus]
    identity: str
    """One hash over the encoded training corpora: another one means that something else is learnt from"""
    report: list[str]
    """Lines for the first screen: where it comes from, and what became of each corpus"""

    @property
    def tokenizer(self) -> Path:
        """The folder that `Task.load` reads."""
        return self.directory / TOKENIZER


class Progress:
    """Tells what happens, and while nothing new does, how far it is, not more often than `every` seconds."""

    def __init__(self, tell: Callable[[str], None], every: float) -> None:
        self.tell = tell
        self.every = every
        self.told = self.began = time.monotonic()

    def say(self, what: str) -> None:
        """Something begins."""
        self.told = self.began = time.monotonic()
        self.tell(what)

    def tick(self, what: str, n_pairs: int) -> None:
        """So far it has come."""
        now = time.monotonic()
        if now - self.told >= self.every:
            self.told = now
            self.tell(f"{what}: {n_pairs:,} pairs, {n_pairs / (now - self.began):,.0f} a second")


def prepare(
    task: Task, config: DataConfig, progress: Callable[[str], None] = lambda _: None, every: float = 10.0
) -> Prepared:
    """The prepared corpora of a task, made if they are missing or stale; the task has its symbols then.

    `progress` is told in a line whatever takes long, and how far it is every so many seconds.
    """
    recipe, told = Recipe(task, config), Progress(progress, every)
    with _alone(recipe.directory, told):
        found = _find(recipe, told)
        manifest = found or _build(recipe, told)
        task.load(recipe.directory / TOKENIZER)
        return _open(recipe, manifest, "found" if found else "made")


@contextmanager
def _alone(directory: Path, told: Progress) -> Iterator[None]:
    """Nobody else prepares this folder meanwhile; the lock goes with the process, however it ends."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock = directory.with_name(f".{directory.name}.lock").open("a")
    except OSError as error:
        if not (directory / MANIFEST).is_file():
            raise _unwritable(directory, error) from None
        lock = None  # a complete folder that is shared read-only: nobody can change it either
    with lock or nullcontext():
        if lock:
            _wait(lock, directory, told)
        yield


def _wait(lock: IO[str], directory: Path, told: Progress) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        told.say(f"waiting for another process that prepares {directory}")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        told.say(f"no locks in {directory.parent}: let only one process prepare there at a time")


def _unwritable(directory: Path, error: OSError) -> DataError:
    return DataError(
        f"data.prepared={directory.parent}: {error.strerror or error}; make room or give yourself permission, or "
        "choose another folder with data.prepared=…"
    )


def _find(recipe: Recipe, told: Progress) -> Manifest | None:
    """The manifest of a folder that can be used as it is, or None, said why if there is one."""
    directory = recipe.directory
    if not directory.exists():
        return None
    try:
        manifest = Manifest.read(directory)
        broken = [name for name, said in manifest.outputs.items() if not is_unchanged(directory / name, said)]
    except (KeyError, TypeError, ValueError, AttributeError, FileNotFoundError):
        broken = [MANIFEST]
    if broken:
        told.say(f"{directory}: {broken[0]} is damaged or missing; preparing again")
        return None
    present = [file for file in recipe.files if file.exists()]
    changed = [f for f in present if not is_unchanged(f, manifest.inputs.get(str(f)))]
    if changed:
        told.say(f"{changed[0]} has changed; preparing again")
        return None
    if len(present) < len(recipe.files):
        gone = next(file for file in recipe.files if file not in present)
        told.say(f"{gone} is gone; using what was prepared from it in {directory}")
    return _restamped(directory, manifest, present)


def _restamped(directory: Path, manifest: Manifest, files: list[Path]) -> Manifest:
    """The manifest with the times of files that were touched, so that they are not read again next time."""
    touched = [f for f in files if not is_untouched(f, manifest.inputs[str(f)])]
    if not touched:
        return manifest
    now = {str(f): replace(manifest.inputs[str(f)], mtime_ns=f.stat().st_mtime_ns) for f in touched}
    manifest = replace(manifest, inputs=manifest.inputs | now)
    if os.access(directory, os.W_OK):
        write_file(directory / MANIFEST, manifest.dump())
    return manifest


def _build(recipe: Recipe, told: Progress) -> Manifest:
    """Learn, encode, and give the complete folder its name."""
    directory = recipe.directory
    temp = directory.with_name(f".{directory.name}.tmp")
    shutil.rmtree(temp, ignore_errors=True)  # of a process that was killed
    try:
        (temp / TOKENIZER).mkdir(parents=True)
        manifest = _fill(temp, recipe, told)
        publish(temp, directory)
    except OSError as error:
        raise _unwritable(directory, error) from error
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    return manifest


def _fill(temp: Path, recipe: Recipe, told: Progress) -> Manifest:
    inputs = {file: stamp(file) for file in recipe.files}
    told.say(f"task={recipe.task.config.name}: learning its symbols")
    recipe.task.learn(temp / TOKENIZER)
    reports = [_encode(temp, number, recipe, told) for number in range(len(recipe.corpora))]
    _refuse_nothing(reports)
    for file, said in inputs.items():
        if not file.exists() or not is_untouched(file, said):
            raise DataError(f"{file}: has changed while it was read; start again when it is complete")
    manifest = Manifest(
        settings=recipe.settings,
        made=time.time(),
        inputs={str(file): said for file, said in inputs.items()},
        outputs={str(f.relative_to(temp)): stamp(f) for f in sorted(temp.rglob("*")) if f.is_file()},
        reports=reports,
    )
    (temp / MANIFEST).write_bytes(manifest.dump())
    return manifest


def _encode(temp: Path, number: int, recipe: Recipe, told: Progress) -> CorpusReport:
    split, name, _ = recipe.corpora[number]
    report = CorpusReport(split, name)
    vocab, what = recipe.task.vocab, f"encoding {split} {name}"
    told.say(what)
    with CorpusWriter(temp / str(number), vocab.src, vocab.tgt) as writer:
        for so_far in encode_corpus(
            recipe.task, writer, report, recipe.limits(split), n_workers(recipe.config.workers)
        ):
            told.tick(what, so_far.n_read)
    return report


def _refuse_nothing(reports: list[CorpusReport]) -> None:
    """A split that is given and has no pairs left would only fail later, and less clearly."""
    for split in dict.fromkeys(report.split for report in reports):
        of_split = [report for report in reports if report.split == split]
        if not any(report.n_kept for report in of_split):
            counts = "; ".join(f"{r.name}: {r.n_read:,} read{r.why()}" for r in of_split)
            raise DataError(f"no {split} pair is left ({counts}); check the files, data.max_len and data.max_ratio")


def _open(recipe: Recipe, manifest: Manifest, how: str) -> Prepared:
    train, valid = [], []
    learnt_from = hashlib.sha256()
    for number, (split, _, weight) in enumerate(recipe.corpora):
        corpus = Corpus(recipe.directory / str(number))
        if split == "train":
            train.append((corpus, weight))
            learnt_from.update(json.dumps(corpus.manifest, sort_keys=True).encode())  # it has the hash of every file
        else:
            valid.append(corpus)
    weights = [weight for _, _, weight in recipe.corpora]
    lines = [report.line(weight) for report, weight in zip(manifest.reports, weights, strict=True)]
    return Prepared(recipe.directory, train, valid, learnt_from.hexdigest(), [f"{how} in {recipe.directory}", *lines])
