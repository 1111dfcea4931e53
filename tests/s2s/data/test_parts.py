"""Preparation by several commands, and continued after a kill, against one command: the same bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from harness.forked_children import in_child
from s2s.config.data import DataConfig
from s2s.data import encode, parts
from s2s.data import preparation as preparation_module
from s2s.data.manifest import Manifest
from s2s.data.parts import Parts
from s2s.data.preparation import prepare, prepare_shard
from s2s.errors import DataError
from s2s.io.shard import Shard
from s2s.plugin import load_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from s2s.data.ledger import CorpusReport
    from s2s.task import Task

N_PAIRS = 500


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """500 pairs in parts of 128; some are dropped, of one part all."""
    monkeypatch.setattr(encode, "CHUNK", 32)
    monkeypatch.setattr(parts, "N_CHUNKS", 4)
    paths = [tmp_path / "a.en", tmp_path / "a.de"]
    for path in paths:
        texts = (" ".join([f"w{i % 7}"] * (i % 40)) for i in range(N_PAIRS))
        lines = ["" if i % 50 == 9 or 128 <= i < 256 else text for i, text in enumerate(texts)]
        path.write_text("\n".join(lines) + "\n")
    return paths


def words(files: list[Path]) -> Task:
    entry = load_plugins().registry.get("task", "translation")
    names = [str(file) for file in files]
    options = {"subword": "whitespace", "invalid": "drop", "train": names, "valid": names, "vocab_size": None}
    task: Task = entry.build(entry.config(name="translation", **options))
    return task


def settings(folder: Path, *, decontaminate: bool = False) -> DataConfig:
    return DataConfig(prepared=str(folder), max_len=30, workers=1, decontaminate=decontaminate)


def contents(directory: Path) -> tuple[dict[str, bytes], list[CorpusReport]]:
    """All files but the manifest, which has times, and the reports in it."""
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    del found["manifest.json"]
    return found, Manifest.read(directory).reports


def whole(files: list[Path], folder: Path) -> tuple[dict[str, bytes], list[CorpusReport]]:
    return contents(prepare(words(files), settings(folder)).directory)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_shards_in_any_order_make_the_bytes_of_one_command(files: list[Path], tmp_path: Path, n: int) -> None:
    results = [prepare_shard(words(files), settings(tmp_path / "b"), Shard(number, n)) for number in range(n, 0, -1)]
    assert [result is not None for result in results] == [False] * (n - 1) + [True]
    assert results[-1]
    assert contents(results[-1].directory) == whole(files, tmp_path / "a")
    again = prepare_shard(words(files), settings(tmp_path / "b"), Shard(1, n))
    assert again
    assert again.report[0].startswith("found in")
    left = {path.name for path in (tmp_path / "b").iterdir()} - {again.directory.name, f".{again.directory.name}.lock"}
    assert left == set()


def test_shards_agree_that_all_training_text_stands_in_the_development_set(files: list[Path], tmp_path: Path) -> None:
    expected = prepare(words(files), settings(tmp_path / "a", decontaminate=True))
    shards = [prepare_shard(words(files), settings(tmp_path / "b", decontaminate=True), Shard(n, 2)) for n in (1, 2)]
    assert shards[1]
    assert contents(shards[1].directory) == contents(expected.directory)


def test_a_large_corpus_is_prepared_in_parts_by_one_command(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole(files, tmp_path / "a")
    monkeypatch.setattr(preparation_module, "IN_PARTS", 1000)
    merged: list[int] = []
    monkeypatch.setattr(Parts, "merge", lambda *a, merge=Parts.merge: merged.append(a[1]) or merge(*a))
    assert whole(files, tmp_path / "b") == expected
    assert merged == [0, 1]


def made(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob(".*.parts-*/*/0*")}


@pytest.mark.parametrize("n_before", [0, 3])
def test_a_killed_command_continues_with_the_parts_that_are_missing(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    write, times = Parts._write, iter(range(100))

    def killed(*arguments: object) -> int:
        if next(times) == n_before:
            os._exit(9)
        return write(*arguments)  # type: ignore[arg-type]

    task = words(files)
    with monkeypatch.context() as patch:
        patch.setattr(Parts, "_write", killed)
        in_child(lambda: prepare_shard(task, settings(tmp_path / "b"), Shard(1, 1)))
    before = made(tmp_path / "b")
    assert len(before) == n_before
    written: list[Path] = []
    monkeypatch.setattr(
        Parts, "_write", lambda self, folder, *rest: written.append(folder) or write(self, folder, *rest)
    )
    prepared = prepare_shard(words(files), settings(tmp_path / "b"), Shard(1, 1))
    assert prepared
    assert len(written) == 2 * 4 - n_before, "4 parts of each corpus"
    assert contents(prepared.directory) == whole(files, tmp_path / "a")


def test_parts_do_not_depend_on_the_number_of_shards(files: list[Path], tmp_path: Path) -> None:
    assert not prepare_shard(words(files), settings(tmp_path / "b"), Shard(2, 3))
    of_three = made(tmp_path / "b")
    prepared = prepare_shard(words(files), settings(tmp_path / "b"), Shard(1, 1))
    assert len(of_three) == 2 * 1
    assert prepared
    assert contents(prepared.directory) == whole(files, tmp_path / "a")


def test_parts_of_other_inputs_are_not_merged(files: list[Path], tmp_path: Path) -> None:
    assert not prepare_shard(words(files), settings(tmp_path / "b"), Shard(1, 2))
    for file in files:
        file.write_text("other words\n" * 300)
    prepared = prepare_shard(words(files), settings(tmp_path / "b"), Shard(1, 1))
    assert prepared
    assert contents(prepared.directory) == whole(files, tmp_path / "a")
    assert not made(tmp_path / "b")


def test_an_input_that_changes_between_shards_is_an_error(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchanged = Parts.encode

    def encoded(*arguments: Any) -> Iterator[int]:
        yield from unchanged(*arguments)
        files[0].write_text("w1 w2\n" * N_PAIRS)

    monkeypatch.setattr(Parts, "encode", encoded)
    with pytest.raises(DataError, match="has changed while it was read"):
        prepare_shard(words(files), settings(tmp_path / "b"), Shard(1, 1))
