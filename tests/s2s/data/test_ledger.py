"""The ledger of a corpus against a count of its lines one by one: every pair is kept, or dropped for one reason."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from s2s.config.data import DataConfig
from s2s.data import encode, ledger
from s2s.data.ledger import N_SAMPLES, Drops, Sample
from s2s.data.manifest import Manifest
from s2s.data.pair_rules import PairRules
from s2s.data.preparation import prepare
from s2s.errors import PluginError
from s2s.io.json_files import dump_record
from s2s.plugin import load_plugins
from s2s.task import Example, Rejected

if TYPE_CHECKING:
    from pathlib import Path

    from s2s.task import Task


def lines(seed: int, n: int) -> list[bytes]:
    """Words, and all that may be wrong with a line."""
    draw = random.Random(seed)
    usual = (" ".join(draw.choices(["ab", "cd", "ef"], k=draw.randint(1, 9))).encode() for _ in range(n))
    return [draw.choice((b"", b"  ", b"\xff", b"a\0b", b"a " * 40)) if draw.random() < 0.1 else line for line in usual]


def lost(src: bytes, tgt: bytes) -> str:
    """Why a pair is dropped, from its bytes; empty: it is kept."""
    for line in (src, tgt):
        if b"\xff" in line:
            return "invalid UTF-8"
        if b"\0" in line:
            return "NUL character"
    if not src.strip() or not tgt.strip():
        return "empty"
    lengths = sorted(len(line.split()) for line in (src, tgt))
    if lengths[1] + 1 > 30:
        return "longer than data.max_len=30"
    return "lengths over data.max_ratio=3" if lengths[1] > 3 * lengths[0] else ""


def words(files: list[Path]) -> Task:
    entry = load_plugins().registry.get("task", "translation")
    options = {"subword": "whitespace", "invalid": "drop", "train": [str(file) for file in files], "vocab_size": None}
    task: Task = entry.build(entry.config(name="translation", **options))
    return task


@pytest.mark.parametrize("chunk", [7, 8192])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_line_is_kept_or_counted_under_one_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, chunk: int
) -> None:
    monkeypatch.setattr(encode, "CHUNK", chunk)
    sides = [lines(seed, 400), lines(seed + 100, 400)]
    files = [tmp_path / "a.en", tmp_path / "a.de"]
    for file, side in zip(files, sides, strict=True):
        file.write_bytes(b"\n".join(side) + b"\n")
    prepared = prepare(words(files), DataConfig(prepared=str(tmp_path), max_len=30, max_ratio=3.0, workers=2))

    by_reason: dict[str, list[int]] = {}
    for number, pair in enumerate(zip(*sides, strict=True), 1):
        by_reason.setdefault(lost(*pair), []).append(number)
    (report,) = Manifest.read(prepared.directory).reports
    kept = by_reason.pop("")
    assert report.drops.counts == {reason: len(numbers) for reason, numbers in by_reason.items()}
    assert (report.n_read, report.n_kept, len(prepared.train[0][0])) == (400, len(kept), len(kept))
    assert report.n_kept + report.drops.total == report.n_read
    for reason, samples in report.drops.samples.items():
        assert [one.number for one in samples] == sorted({one.number for one in samples} & {*by_reason[reason]})
        assert len(samples) == min(N_SAMPLES, len(by_reason[reason]))
        for one in samples:
            if one.src:
                texts = tuple(side[one.number - 1].decode() for side in sides)
                assert (one.src, one.tgt) == texts
    assert len(by_reason) == 5


def test_samples_are_the_same_however_the_corpus_is_cut() -> None:
    reasons = random.Random(1).choices(("", "a", "b"), k=500)
    chunk = [Rejected(reason) if reason == "b" else Example(f"s{i}", f"t{i}") for i, reason in enumerate(reasons)]
    whole = Drops.collect(chunk, reasons, 0)
    parts = Drops()
    for at in range(0, 500, 17):
        parts.add(Drops.collect(chunk[at : at + 17], reasons[at : at + 17], at))
    assert parts == whole
    n = whole.samples["a"][0].number
    assert whole.samples["a"][0] == Sample(n, f"s{n - 1}", f"t{n - 1}")
    assert all(one.src == one.tgt == "" for one in whole.samples["b"])
    assert whole.samples["a"][-1].number > 100, "not the first ones"


def test_a_long_text_is_shown_by_its_beginning() -> None:
    drops = Drops.collect([Example("x" * 10**6, "y")], ["long"], 0)
    assert drops.samples == {"long": [Sample(1, "x" * ledger.N_SHOWN, "y")]}


def test_a_record_of_before_there_were_samples_is_read(tmp_path: Path) -> None:
    old = {"split": "train", "name": "a", "n_read": 3, "n_kept": 2, "dropped": {"empty": 1}, "n_src": 4, "n_tgt": 4}
    record = {"settings": {}, "made": 0, "inputs": {}, "outputs": {}, "reports": [{**old, "n_unk": 0, "sources": None}]}
    (tmp_path / "manifest.json").write_bytes(dump_record(record))
    (report,) = Manifest.read(tmp_path).reports
    assert report.summary().startswith("train a: 3 pairs read, 2 kept, 1 dropped (1 empty);")


def test_a_rule_that_gives_too_few_reasons_is_refused() -> None:
    rules = PairRules(texts=[lambda pairs: ["x", "", "y"], lambda pairs: []])
    chunk = [Example("a", "b"), Rejected("bad"), Example("c", "d"), Example("e", "f")]
    with pytest.raises(PluginError, match=r"^data\.rules: a rule gave 0 reasons for 1 pairs$"):
        rules.judge_texts(chunk)
    assert PairRules(texts=rules.texts[:1]).judge_texts(chunk) == ["x", "bad", "", "y"]
