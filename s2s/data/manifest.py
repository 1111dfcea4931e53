"""The manifest in a prepared folder."""

from __future__ import annotations

__all__ = ["MANIFEST", "Manifest", "read_report"]

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from s2s.data.file_stamp import FileStamp
from s2s.data.ledger import CorpusReport, Drops, Sample
from s2s.data.source_shape import SourceCounts
from s2s.io.json_files import dump_record, read_record

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a prepared folder was made from, and what it holds."""

    settings: dict[str, Any]
    made: float
    """Seconds since 1970; for information only"""
    inputs: dict[str, FileStamp]
    outputs: dict[str, FileStamp]
    """By their paths in the folder"""
    reports: list[CorpusReport]

    def dump(self) -> bytes:
        """The manifest as a record."""
        return dump_record(asdict(self))

    @classmethod
    def read(cls, directory: Path) -> Self:
        """The manifest of a folder; raises OSError, KeyError, TypeError or ValueError if it is missing or damaged."""
        read = read_record(directory / MANIFEST)
        inputs, outputs = ({name: FileStamp(**s) for name, s in read[key].items()} for key in ("inputs", "outputs"))
        reports = [read_report(report) for report in read["reports"]]
        return cls(read["settings"], read["made"], inputs, outputs, reports)


def read_report(record: dict[str, Any]) -> CorpusReport:
    """The report of which `asdict` made a record."""
    sources, counts = record.get("sources"), record.pop("dropped", {})
    drops = _drops(**record["drops"]) if "drops" in record else Drops(counts)  # before there were samples
    return CorpusReport(**record | {"sources": SourceCounts.read(sources) if sources else None, "drops": drops})


def _drops(counts: dict[str, int], samples: dict[str, list[list[Any]]]) -> Drops:
    return Drops(counts, {reason: [Sample(*one) for one in of] for reason, of in samples.items()})
