"""The parts of a large preparation, which several commands share, and which a killed one continues.

A part is a fixed number of pairs of a corpus, encoded, in a folder of its own. It depends neither on the number of
commands nor on that of threads; merged in order, the parts are the bytes of one command.
"""

from __future__ import annotations

__all__ = ["Parts"]

import hashlib
import json
import os
import shutil
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from s2s.data.encode import Chunks, encoded_chunks
from s2s.data.file_stamp import FileStamp
from s2s.data.ledger import CorpusReport
from s2s.data.manifest import read_report
from s2s.data.mapped_corpus import MappedCorpus, MappedCorpusWriter, RaggedIds
from s2s.data.preparation_spec import PreparationSpec
from s2s.data.source_shape import SourceCounts
from s2s.io.atomic import write_synced
from s2s.io.json_files import dump_record, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from s2s.data.encode import EncodedChunk
    from s2s.data.pair_rules import PairRules
    from s2s.io.shard import Shard

N_CHUNKS = 32
"""Chunks of a part: 262,144 pairs, some ten seconds of a core, which are all that a killed command loses"""
REPORT, END, TOKENIZER = "report.json", "end.json", "tokenizer"


@dataclass(frozen=True)
class Parts:
    """The parts of one prepared folder, in a folder beside it whose name depends on the contents of all inputs."""

    spec: PreparationSpec
    inputs: dict[Path, FileStamp]

    @classmethod
    def open(cls, spec: PreparationSpec) -> Parts:
        """Those of the inputs as they are; files that another command has hashed are not read again."""
        record = _beside(spec, "inputs.json")
        try:
            known = {Path(file): FileStamp(**stamp) for file, stamp in read_record(record).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            known = {}
        stamps = {
            file: stamp if (stamp := known.get(file)) and file.exists() and stamp.has_time(file) else None
            for file in spec.files
        }
        inputs = {file: stamp or FileStamp.read(file) for file, stamp in stamps.items()}
        if inputs != known:
            record.parent.mkdir(parents=True, exist_ok=True)
            _put(record, dump_record({str(file): asdict(stamp) for file, stamp in inputs.items()}))
        return cls(spec, inputs)

    @property
    def directory(self) -> Path:
        """The folder."""
        contents = json.dumps([[str(file), stamp.sha256] for file, stamp in self.inputs.items()])
        return _beside(self.spec, f"parts-{hashlib.sha256(contents.encode()).hexdigest()[:12]}")

    def provide_tokenizer(self, provide: Callable[[Path], None]) -> None:
        """Load the tokeniser of all parts, which `provide` writes into a folder if there is none."""
        folder = self.directory / TOKENIZER
        if not folder.is_dir():
            temp = _temporary(folder)
            temp.mkdir(parents=True)
            provide(temp)
            _rename(temp, folder)
        self.spec.task.load(folder)

    def copy_tokenizer(self, target: Path) -> None:
        """Copy it into an empty folder, and load it from there."""
        shutil.copytree(self.directory / TOKENIZER, target, dirs_exist_ok=True)
        self.spec.task.load(target)

    def encode(self, number: int, rules: PairRules, shard: Shard, workers: int) -> Iterator[int]:
        """Make the missing parts of a shard of the corpus of a number; yields the pairs of each that is made.

        Every pair that is not one's own has to be passed over, at the speed of counting lines in plain files.
        """
        split, name, _ = self.spec.corpora[number]
        place = self._place(number)
        place.mkdir(parents=True, exist_ok=True)
        made = {int(path.name) for path in place.iterdir() if path.name.isdecimal()}
        n_parts = self._n_parts(number)
        if n_parts is not None and all(part in made for part in range(n_parts) if shard.has(part)):
            return
        chunks = Chunks(
            self.spec.task.examples(split, name),
            lambda chunk: shard.has(chunk // N_CHUNKS) and chunk // N_CHUNKS not in made,
        )
        encoded = encoded_chunks(self.spec.task, chunks, rules, workers)
        for part, group in groupby(encoded, lambda chunk: chunk.number // N_CHUNKS):
            yield self._write(place / f"{part:06}", group, split, name)
        _put(place / END, dump_record({"parts": -(-chunks.n // N_CHUNKS)}))

    def _write(self, folder: Path, chunks: Iterable[EncodedChunk], split: str, name: str) -> int:
        report = CorpusReport(split, name, sources=SourceCounts() if split == "train" else None)
        temp, vocab = _temporary(folder), self.spec.task.vocab
        shutil.rmtree(temp, ignore_errors=True)
        with MappedCorpusWriter(temp, vocab.src, vocab.tgt) as writer:
            for chunk in chunks:
                chunk.write(writer, report)
        write_synced(temp / REPORT, dump_record(asdict(report)))
        _rename(temp, folder)
        return report.n_read

    def is_complete(self) -> bool:
        """Whether all parts of all corpora are made."""
        for number in range(len(self.spec.corpora)):
            n_parts = self._n_parts(number)
            if n_parts is None or not all(folder.is_dir() for folder in self._folders(number, n_parts)):
                return False
        return True

    def merge(self, number: int, writer: MappedCorpusWriter, report: CorpusReport) -> Iterator[CorpusReport]:
        """Append the parts of a corpus in order, yielding the report of all so far."""
        for folder in self._folders(number, self._n_parts(number) or 0):
            of_part = read_report(read_record(folder / REPORT))
            if of_part.n_kept:
                corpus = MappedCorpus(folder)
                lengths = corpus.lengths(np.arange(len(corpus)))
                writer.append(*(RaggedIds(corpus.ids(side, corpus.n_ids[side]), lengths[side]) for side in (0, 1)))
            report.add(of_part)
            yield report

    def remove(self) -> None:
        """Remove them, and those of earlier inputs, when they have been merged."""
        name = self.spec.directory.name
        for folder in self.spec.directory.parent.glob(f".{name}.parts-*"):
            shutil.rmtree(folder, ignore_errors=True)
        _beside(self.spec, "inputs.json").unlink(missing_ok=True)

    def _place(self, number: int) -> Path:
        return self.directory / str(number)

    def _folders(self, number: int, n_parts: int) -> Iterator[Path]:
        return (self._place(number) / f"{part:06}" for part in range(n_parts))

    def _n_parts(self, number: int) -> int | None:
        try:
            return int(read_record(self._place(number) / END)["parts"])
        except FileNotFoundError:
            return None


def _beside(spec: PreparationSpec, what: str) -> Path:
    return spec.directory.with_name(f".{spec.directory.name}.{what}")


def _temporary(path: Path) -> Path:
    """A name of this process's own: two commands may make the same part."""
    return path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}")


def _put(path: Path, data: bytes) -> None:
    temp = _temporary(path)
    write_synced(temp, data)
    temp.replace(path)


def _rename(temp: Path, folder: Path) -> None:
    """Give a complete folder its name, unless another command has made the same one."""
    with suppress(OSError):
        temp.rename(folder)
    if temp.exists():
        shutil.rmtree(temp)
    if not folder.is_dir():
        raise OSError(f"{folder} cannot be made")
