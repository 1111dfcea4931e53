"""The copy of a tokeniser in a run, and what identifies it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from s2s.errors import CheckpointError
from s2s.io.json_files import dump_record
from s2s.run import tokenizer
from s2s.run.record import matches_checksum, read_run_record, with_checksum


@pytest.fixture
def source() -> Path:
    """A tokeniser of two files, one in a folder, with hidden files beside them."""
    folder = Path("source")
    (folder / "part").mkdir(parents=True)
    for name in ("b.model", "part/a.txt", ".hidden", "part/.hidden"):
        (folder / name).write_text(name)
    return folder


def test_the_identity_is_the_hash_of_the_names_and_hashes_of_all_files(source: Path) -> None:
    hashes = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("b.model", "part/a.txt")}
    assert tokenizer.identity(source) == hashlib.sha256(json.dumps(hashes).encode()).hexdigest()
    assert tokenizer.recorded_identity(source) is None
    tokenizer.copy_tokenizer(source, Path("copy"))
    assert json.loads(Path("copy/MANIFEST.json").read_text()) == hashes
    assert tokenizer.identity(Path("copy")) == tokenizer.recorded_identity(Path("copy")) == tokenizer.identity(source)


def test_the_identity_does_not_depend_on_the_order_of_a_manifest(source: Path) -> None:
    tokenizer.copy_tokenizer(source, Path("copy"))
    manifest = Path("copy/MANIFEST.json")
    files = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(dict(reversed(files.items()))))
    assert tokenizer.recorded_identity(Path("copy")) == tokenizer.identity(source)


def test_a_copy_takes_the_place_of_an_older_one_and_of_half_of_one(source: Path) -> None:
    for old in (Path("copy"), Path(".copy.tmp")):
        old.mkdir()
        (old / "old").write_text("")
    for _ in range(2):
        tokenizer.copy_tokenizer(source, Path("copy"))
        assert sorted(path.name for path in Path("copy").iterdir()) == [".hidden", "MANIFEST.json", "b.model", "part"]
        assert not Path(".copy.tmp").exists()


def test_every_file_of_a_copy_is_synced_before_it_is_in_place(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, synced = tokenizer.atomic.fsync, list[str]()
    monkeypatch.setattr(tokenizer.atomic, "fsync", lambda path: synced.append(path.name) or fsync(path))
    tokenizer.copy_tokenizer(source, Path("copy"))
    assert {"b.model", "a.txt"} < set(synced)
    assert synced[-2:] == [".copy.tmp", ""]


def test_a_manifest_that_is_none_is_damaged(source: Path) -> None:
    for content in ("[1]", "{", "5"):
        (source / "MANIFEST.json").write_text(content)
        with pytest.raises(CheckpointError, match=r"^source/MANIFEST\.json is damaged: "):
            tokenizer.recorded_identity(source)


def test_a_file_that_cannot_be_read_is_an_error_of_the_user(source: Path) -> None:
    (source / "c").symlink_to("/proc/self/mem")  # which says that it is a file, and cannot be read from its beginning
    with pytest.raises(CheckpointError, match=r"^source: the tokeniser cannot be read: "):
        tokenizer.identity(source)


def test_a_configuration_knows_whether_it_is_as_it_was_written() -> None:
    path, yaml = Path("resolved.yaml"), "a: 1\nb: ä\n"
    path.write_text(yaml)
    assert matches_checksum(path), "one without a checksum is believed"
    written = with_checksum(yaml)
    assert written == f"{yaml}# sha256 of the lines above: {hashlib.sha256(yaml.encode()).hexdigest()}\n"
    for text, expected in [(written, True), (written.rstrip(), True), (written.replace("1", "2", 1), False)]:
        path.write_text(text)
        assert matches_checksum(path) is expected


def test_of_a_record_what_is_needed_is_read() -> None:
    Path("checkpoints/step-000001").mkdir(parents=True)
    assert read_run_record(Path("record.json"), "b", "a") is None
    Path("record.json").write_bytes(dump_record({"a": 1, "b": [2], "c": 3}))
    assert read_run_record(Path("record.json"), "b", "a") == {"a": 1, "b": [2]}


def test_a_record_of_a_run_that_saved_nothing_does_not_count() -> None:
    Path("record.json").write_bytes(dump_record({"a": 1}))
    assert read_run_record(Path("record.json"), "a") is None


@pytest.mark.parametrize("content", [b"{", dump_record({"a": 1}), dump_record({"b": 1}).replace(b"1", b"2", 1)])
def test_a_record_without_what_is_needed_is_damaged(content: bytes) -> None:
    Path("checkpoints/step-000001").mkdir(parents=True)
    Path("record.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"^record\.json is damaged \(.*\): put it back, or give the option"):
        read_run_record(Path("record.json"), "b")
