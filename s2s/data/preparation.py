"""Prepares what training reads: a folder with the tokeniser, the encoded corpora and a manifest.

The folder's name contains a hash of all settings, its manifest a hash of every input file. So it is built once, reused
with the same settings, and rebuilt when an input has changed. It is built under a temporary name and renamed when
complete, so that a crash leaves a complete folder or none.
"""

from __future__ import annotations

__all__ = ["prepare", "prepare_shard"]

import fcntl
import hashlib
import json
import shutil
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from s2s.backend.cores import usable_cores
from s2s.data.encode import encode_corpus
from s2s.data.file_stamp import FileStamp
from s2s.data.ledger import CorpusReport
from s2s.data.manifest import MANIFEST, Manifest
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter
from s2s.data.parts import Parts
from s2s.data.preparation_spec import PreparationSpec
from s2s.data.prepared_check import find_prepared
from s2s.data.prepared_data import TOKENIZER, PreparedData
from s2s.data.source_shape import SourceCounts, SourceShape
from s2s.errors import DataError
from s2s.io.atomic_folder import new_folder, remove_remnant
from s2s.io.kernel_lock import flock
from s2s.io.own_file import open_own
from s2s.io.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from s2s.config.data import DataConfig
    from s2s.data.held_out import HeldOutTexts
    from s2s.registry import Registry
    from s2s.task import Task

IN_PARTS = 1 << 28
"""Bytes of the inputs from which on one command makes parts as well: a killed one then continues"""


class ProgressReporter:
    """Reports each stage when it begins, and the number of pairs so far at most once in `every` seconds."""

    def __init__(self, report: Callable[[str], None], every: float) -> None:
        self.report = report
        self.every = every
        self.last = self.began = time.monotonic()

    def begin(self, stage: str) -> None:
        """Report the beginning of a stage."""
        self.last = self.began = time.monotonic()
        self.report(stage)

    def advance(self, stage: str, n_pairs: int) -> None:
        """Report the progress of a stage."""
        now = time.monotonic()
        if now - self.last >= self.every:
            self.last = now
            self.report(f"{stage}: {n_pairs:,} pairs, {n_pairs / (now - self.began):,.0f} a second")


def prepare(
    task: Task,
    config: DataConfig,
    report: Callable[[str], None] = lambda _: None,
    every: float = 10.0,
    *,
    verify: bool = True,
    registry: Registry | None = None,
) -> PreparedData:
    """The prepared corpora of a task, built if missing or stale; loads the task's tokenisers.

    `report` gets a line for each stage, and for the current one every `every` seconds. verify: read existing files
    and compare them with their hashes; another process of this machine may have just done so.
    registry: where data.rules are looked up; None: among the installed plugins.
    """
    spec, progress = PreparationSpec(task, config, registry), ProgressReporter(report, every)
    with _locked(spec.directory, progress):
        existing = find_prepared(spec, progress.begin, verify=verify)
        remove_remnant(spec.directory)
        manifest = existing or _build(spec, progress)
        task.load(spec.directory / TOKENIZER)
        return _open(spec, manifest, "found" if existing else "made")


@contextmanager
def _locked(directory: Path, progress: ProgressReporter) -> Iterator[None]:
    """Hold the lock of this folder; it is released when the process ends, however it ends."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock = open_own(directory.with_name(f".{directory.name}.lock"), "a")
    except OSError as error:
        if not (directory / MANIFEST).is_file():
            raise _unwritable(directory, error) from None
        lock = None  # a complete folder on a read-only share needs no lock
    with lock or nullcontext():
        if lock:
            _wait(lock, directory, progress)
        yield


def _wait(lock: IO[str], directory: Path, progress: ProgressReporter) -> None:
    try:
        if not flock(lock):
            progress.begin(f"no locks in {directory.parent}: let only one process prepare there at a time")
    except BlockingIOError:
        progress.begin(f"waiting for another process that prepares {directory}")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _unwritable(directory: Path, error: OSError) -> DataError:
    return DataError(
        f"data.prepared={directory.parent}: {error.strerror or error}; make room or give yourself permission, or "
        "choose another folder with data.prepared=…"
    )


def prepare_shard(
    task: Task,
    config: DataConfig,
    shard: Shard,
    report: Callable[[str], None] = lambda _: None,
    every: float = 10.0,
    *,
    registry: Registry | None = None,
) -> PreparedData | None:
    """As `prepare`, by several commands on any machines that share the folder: each encodes a shard, and the last one
    that finishes merges them. None: others have not finished yet."""
    spec, progress = PreparationSpec(task, config, registry), ProgressReporter(report, every)
    with _locked(spec.directory, progress):
        manifest = find_prepared(spec, progress.begin, verify=True)
        parts = None if manifest else _open_parts(spec, progress)
    origin = "found" if manifest else "made"
    if parts:
        _encode_parts(parts, shard, progress)
        with _locked(spec.directory, progress):
            manifest = find_prepared(spec, progress.begin, verify=False)
            if not manifest and parts.is_complete():
                manifest = _build(spec, progress, parts)
    if not manifest:
        return None
    task.load(spec.directory / TOKENIZER)
    return _open(spec, manifest, origin)


def _open_parts(spec: PreparationSpec, progress: ProgressReporter) -> Parts:
    try:
        parts = Parts.open(spec)
        parts.provide_tokenizer(lambda folder: _provide_tokenizer(folder, spec, progress))
    except OSError as error:
        raise _unwritable(spec.directory, error) from error
    return parts


def _encode_parts(parts: Parts, shard: Shard, progress: ProgressReporter) -> None:
    spec = parts.spec
    held_out = spec.read_held_out()
    try:
        for number, (split, name, _) in enumerate(spec.corpora):
            stage, n_pairs = f"encoding {split} {name}", 0
            progress.begin(stage)
            for n_read in parts.encode(
                number, spec.rules(split, held_out), shard, spec.config.workers or usable_cores()
            ):
                n_pairs += n_read
                progress.advance(stage, n_pairs)
    except OSError as error:
        raise _unwritable(spec.directory, error) from error


def _build(spec: PreparationSpec, progress: ProgressReporter, parts: Parts | None = None) -> Manifest:
    """Train the tokenisers, encode, or merge parts, and rename the complete folder."""
    directory = spec.directory
    if not parts and sum(file.stat().st_size for file in spec.files if file.exists()) >= IN_PARTS:
        parts = _open_parts(spec, progress)
        _encode_parts(parts, Shard(1, 1), progress)
    try:
        with new_folder(directory) as temp:
            (temp / TOKENIZER).mkdir()
            manifest = _fill(temp, spec, progress, parts)
    except OSError as error:
        raise _unwritable(directory, error) from error
    if parts:
        parts.remove()
    return manifest


def _fill(temp: Path, spec: PreparationSpec, progress: ProgressReporter, parts: Parts | None) -> Manifest:
    inputs = parts.inputs if parts else {file: FileStamp.read(file) for file in spec.files}
    if parts:
        parts.copy_tokenizer(temp / TOKENIZER)
    else:
        _provide_tokenizer(temp / TOKENIZER, spec, progress)
    reports = _encode_all(temp, spec, progress, parts)
    for file, stamp in inputs.items():
        if not file.exists() or not stamp.has_time(file):
            raise DataError(f"{file}: has changed while it was read; start again when it is complete")
    manifest = Manifest(
        settings=spec.settings,
        made=time.time(),
        inputs={str(file): stamp for file, stamp in inputs.items()},
        outputs={str(f.relative_to(temp)): FileStamp.read(f) for f in sorted(temp.rglob("*")) if f.is_file()},
        reports=reports,
    )
    (temp / MANIFEST).write_bytes(manifest.dump())
    return manifest


def _provide_tokenizer(target: Path, spec: PreparationSpec, progress: ProgressReporter) -> None:
    """Copy the tokeniser of data.tokenizer, or learn one."""
    source = spec.tokenizer
    if source is None:
        progress.begin(f"task={spec.task.config.name}: learning its vocabulary")
        spec.task.learn(target)
        return
    if not spec.tokenizer_files:
        raise DataError(
            f"data.tokenizer={spec.config.tokenizer}: no run and no folder with a tokeniser; check the path"
        )
    progress.begin(f"task={spec.task.config.name}: taking the vocabulary of {source}")
    for file in spec.tokenizer_files:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    spec.task.load(target)
    if spec.config.new_tokens:
        progress.begin(f"task={spec.task.config.name}: extending its vocabulary")
        spec.task.extend(target, spec.config.new_tokens)


def _encode_all(
    temp: Path, spec: PreparationSpec, progress: ProgressReporter, parts: Parts | None
) -> list[CorpusReport]:
    """Encode the corpora, without training text that stands in development and test sets; with all of it if that would
    drop more than it leaves, as in a test that a model can overfit."""
    held_out, numbers = spec.read_held_out(), range(len(spec.corpora))
    reports = [_encode(temp, number, spec, progress, held_out, parts) for number in numbers]
    training = [report for report in reports if report.split == "train"]
    overlaps = [report.n_dropped(held_out.reasons) if held_out else 0 for report in reports]
    if sum(overlaps) <= sum(report.n_kept for report in training):
        return reports
    progress.begin("most training text stands in development or test sets; encoding all of it")
    reports = [_encode(temp, number, spec, progress) for number in numbers]
    return [replace(report, n_overlap=n) for report, n in zip(reports, overlaps, strict=True)]


def _encode(
    temp: Path,
    number: int,
    spec: PreparationSpec,
    progress: ProgressReporter,
    held_out: HeldOutTexts | None = None,
    parts: Parts | None = None,
) -> CorpusReport:
    split, name, _ = spec.corpora[number]
    report = CorpusReport(split, name, sources=SourceCounts() if split == "train" else None)
    vocab, n_threads = spec.task.vocab, spec.config.workers or usable_cores()
    stage = f"{'merging' if parts else 'encoding'} {split} {name}"
    progress.begin(stage)
    with MappedCorpusWriter(temp / str(number), vocab.src, vocab.tgt) as writer:
        whole = parts.merge(number, writer, report) if parts else None
        for so_far in whole or encode_corpus(spec.task, writer, report, spec.rules(split, held_out), n_threads):
            progress.advance(stage, so_far.n_read)
    is_held_out = bool(held_out and report.n_dropped(held_out.reasons))
    if not report.n_kept and not is_held_out:  # the other corpora alone are not what was asked for
        reason = f"{split} corpus {name}: no pair is left ({report.n_read:,} read{report.drop_summary()})"
        raise DataError(f"{reason}; check the files, data.max_len and data.max_ratio")
    return report


def _open(spec: PreparationSpec, manifest: Manifest, origin: str) -> PreparedData:
    train, valid = [], []
    digest = hashlib.sha256()
    kept = {report.name: report.n_kept for report in manifest.reports if report.split == "train"}
    of_train = spec.task.weights(kept)
    weights = [of_train[name] if split == "train" else weight for split, name, weight in spec.corpora]
    for number, ((split, _, _), weight) in enumerate(zip(spec.corpora, weights, strict=True)):
        corpus = MappedCorpus(spec.directory / str(number))
        if split == "train":
            train.append((corpus, weight))
            digest.update(json.dumps(corpus.manifest, sort_keys=True).encode())  # it contains the hash of every file
        else:
            valid.append(corpus)
    lines = [report.summary(weight) for report, weight in zip(manifest.reports, weights, strict=True)]
    sources = SourceShape.summarize(report.sources for report in manifest.reports if report.sources)
    report = [f"{origin} in {spec.directory}", *lines]
    return PreparedData(spec.directory, train, valid, digest.hexdigest(), report, manifest.reports, sources)
