"""What the corpora lost: pairs read, kept, and dropped by reason, with samples, as preparation counted them."""

from __future__ import annotations

__all__ = ["ledger_section"]

from typing import TYPE_CHECKING, Any, NamedTuple

from s2s.io import read_json
from s2s_report.document import Details, Section, Table, Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from s2s_report.document import Block
    from s2s_report.run_log import RunLog

OVERLAP = "kept, although in development or test sets"
HEAD = ["corpus", "pairs", "", "share"]
HEAD_OF_SAMPLES = ["corpus", "dropped since", "pair", "source", "target"]


class _Corpus(NamedTuple):
    rows: list[list[str]]
    samples: list[list[str]]


def ledger_section(logs: Sequence[RunLog]) -> Section:
    """A row for each reason of each corpus; pairs kept and dropped are all that were read."""
    blocks: list[Block] = []
    for log in logs:
        corpora = _read(log)
        if not corpora:
            blocks.append(Text(f"{log.name}: its ledger.json is missing, damaged, or of an earlier version."))
            continue
        blocks += [Text(log.name)] if len(logs) > 1 else []
        blocks.append(Table(HEAD, [row for corpus in corpora for row in corpus.rows], (1, 3)))
        if samples := [row for corpus in corpora for row in corpus.samples]:
            blocks.append(Details(f"Some that {log.name} was not trained on", [Table(HEAD_OF_SAMPLES, samples, (2,))]))
    return Section("What the corpora lost", blocks)


def _read(log: RunLog) -> list[_Corpus]:
    """The ledger of a run; none if there is none, or not in the form in which a run writes it."""
    try:
        return [_corpus(one) for one in read_json(log.directory / "ledger.json")["corpora"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return []


def _corpus(record: Mapping[str, Any]) -> _Corpus:
    name, n_read = f"{record['split']} {record['name']}", record["read"]
    dropped = sorted(record["dropped"], key=lambda one: (-one["pairs"], one["reason"]))
    counts = [("read", n_read), ("kept", record["kept"])]
    counts += [(OVERLAP, record["overlap"])] if record["overlap"] else []
    counts += [(f"dropped: {one['reason']}", one["pairs"]) for one in dropped]
    return _Corpus(
        [[name, f"{count:,d}", what, f"{count / max(n_read, 1):.2%}"] for what, count in counts],
        [
            [name, str(one["reason"]), f"{sample['number']:,d}", str(sample["src"]), str(sample["tgt"])]
            for one in dropped
            for sample in one["samples"]
        ],
    )
