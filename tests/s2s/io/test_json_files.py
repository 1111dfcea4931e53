"""JSON files and records: whatever the file holds, the result is a value or an error in one line."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from s2s.io import json_files
from s2s.io.json_files import dump_checked, dump_record, parse_json, read_checked, read_json, read_record

CONTENT = {"name": "ö", "many": [1, 2.5, None], "deep": {"a": {"b": "c"}}}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(dump_record({**CONTENT, "path": Path("x")}))
    assert read_record(tmp_path / "r") == {**CONTENT, "path": "x"}


def test_a_flipped_bit_of_a_record_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    draw, whole, n_found = random.Random(1), dump_record(CONTENT), 0
    for _ in range(300):
        flipped = bytearray(whole)
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        (tmp_path / "r").write_bytes(flipped)
        try:
            assert read_record(tmp_path / "r") == CONTENT
        except ValueError:
            n_found += 1
    assert n_found > 200


def test_a_flipped_bit_of_a_checked_object_is_an_error_or_changes_no_value(tmp_path: Path) -> None:
    whole = dump_checked(CONTENT).encode()
    (tmp_path / "r").write_bytes(whole)
    assert read_checked(tmp_path / "r") == CONTENT
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "r").write_bytes(flipped)
        with suppress(ValueError):
            assert read_checked(tmp_path / "r").items() >= CONTENT.items(), flipped
    (tmp_path / "r").write_text(json.dumps(CONTENT))
    assert read_checked(tmp_path / "r") == CONTENT, "as an earlier s2s wrote it"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "{", "\xff", "[1]", '{"content": 1}'])
def test_what_is_no_record_is_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "r").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"."):
        read_record(tmp_path / "r")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "no record"),
        ('{"content": [1]}', "no record"),
        ('{"content": {"a": 1}}', "its checksum does not match"),
        ('{"content": {"a": 1}, "sha256": "0"}', "its checksum does not match"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=["list", "content that is a list", "no checksum", "another checksum", "deep"],
)
def test_an_error_says_why_it_is_no_record(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_record(tmp_path / "r")


@pytest.mark.parametrize(
    ("text", "message"), [("[1]", "no object"), ('{"sha256": "0"}', "its checksum does not match")]
)
def test_an_error_says_why_an_object_is_not_read(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_checked(tmp_path / "r")


def test_a_file_is_read_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "LARGEST", 1000)
    (tmp_path / "r").write_text(f'"{"x" * 998}"')
    assert read_json(tmp_path / "r") == "x" * 998
    (tmp_path / "r").write_text(f'"{"x" * 999}"')
    with pytest.raises(ValueError, match="larger than 1,000 bytes"):
        read_json(tmp_path / "r")
    with pytest.raises(IsADirectoryError):
        read_json(tmp_path)


def test_numbers_that_json_does_not_have_are_read_as_the_caller_wants() -> None:
    assert parse_json("[NaN, 1]", parse_constant=str) == ["NaN", 1]


@pytest.mark.parametrize("text", ['{"src": "a", "src": "b"}', '[{"a": {"src": 1, "b": 2, "src": 1}}]'])
def test_an_object_with_a_key_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'src' occurs twice in one object$"):
        parse_json(text)


def test_records_and_objects_are_readable_by_people() -> None:
    assert dump_record({"a": 1}).decode().splitlines()[1:3] == [' "content": {', '  "a": 1']
    assert dump_checked({"a": 1}).splitlines()[:2] == ["{", ' "a": 1,']
    assert dump_checked({"b": 1, "a": 2}) != dump_checked({"a": 2, "b": 1}), "in the order in which they are given"


def test_keys_may_be_written_again_in_another_order(tmp_path: Path) -> None:
    written = json.loads(dump_checked({"b": 1, "a": {"d": 2, "c": 3}}))
    (tmp_path / "r").write_text(json.dumps(written, sort_keys=True))
    assert read_checked(tmp_path / "r") == {"a": {"c": 3, "d": 2}, "b": 1}


def test_what_never_ends_or_never_begins_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("zero", "pipe"):
        with pytest.raises(ValueError, match="not a regular file"):
            read_json(tmp_path / name)
