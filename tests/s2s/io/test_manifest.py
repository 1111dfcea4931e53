"""A manifest knows every change of itself and of the files beside it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from s2s.io.manifest import read_manifest, write_manifest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    for name in ("a.bin", "below/b.txt"):
        (tmp_path / name).write_text(name)
    write_manifest(tmp_path / "manifest.json", {"origin": [1, "x"]}, ["a.bin", "below/b.txt"])
    return tmp_path / "manifest.json"


def test_what_was_written_is_read(manifest: Path) -> None:
    read = read_manifest(manifest)
    assert read["origin"] == [1, "x"]
    assert {name: entry["size"] for name, entry in read["files"].items()} == {"a.bin": 5, "below/b.txt": 11}


@pytest.mark.parametrize("name", ["manifest.json", "a.bin", "below/b.txt"])
def test_every_flipped_bit_is_found(manifest: Path, name: str) -> None:
    file = manifest.parent / name
    whole = file.read_bytes()
    before = read_manifest(manifest)
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        try:
            assert read_manifest(manifest) == before, "only white space may differ"
            assert name == "manifest.json"
        except (OSError, ValueError):
            pass


@pytest.mark.parametrize("replace", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda _: None])
def test_what_is_no_file_is_not_read(manifest: Path, replace: Any) -> None:
    for name in ("below/b.txt", "manifest.json"):
        (manifest.parent / name).unlink()
        replace(manifest.parent / name)
        with pytest.raises((OSError, ValueError)):
            read_manifest(manifest)


@pytest.mark.parametrize(
    "files", [{"../out": {"size": 1, "sha256": ""}}, {"/etc/passwd": {"size": 1, "sha256": ""}}, {"a.bin": 5}, [], None]
)
def test_a_malformed_list_of_files_is_refused(manifest: Path, files: Any) -> None:
    from s2s.io.json_files import dump_checked

    manifest.write_text(dump_checked({"files": files}))
    with pytest.raises(ValueError, match="malformed"):
        read_manifest(manifest)


@pytest.mark.parametrize("checksum", [{}, {"sha256": None}, {"sha256": "0" * 64}])
def test_a_manifest_without_its_checksum_is_refused(manifest: Path, checksum: dict[str, Any]) -> None:
    content = json.loads(manifest.read_text())
    del content["sha256"]
    manifest.write_text(json.dumps({**content, **checksum}))
    with pytest.raises(ValueError, match=r"sha256|checksum"):
        read_manifest(manifest)
