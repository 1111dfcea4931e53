"""Which files of a checkpoint are verified."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from s2s.checkpoint.manifest import groups, verify, write_manifest
from s2s.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["model.safetensors", "optim.safetensors", "state.json", "task.json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).write_bytes(name.encode())
    write_manifest(tmp_path, FILES)
    return tmp_path


@pytest.mark.parametrize(
    ("damaged", "only", "seen"),
    [
        *((name, None, True) for name in FILES),
        ("model.safetensors", {"model"}, True),
        ("optim.safetensors", {"model"}, False),
        ("optim.safetensors", set(), False),
        ("state.json", {"model"}, True),
        ("task.json", set(), True),
    ],
    ids=str,
)
@pytest.mark.parametrize("size_kept", [True, False])
def test_all_files_are_verified_but_tensors_that_are_not_wanted(
    damaged: str, only: set[str] | None, seen: bool, size_kept: bool, folder: Path
) -> None:
    (folder / damaged).write_bytes(b"X" * (len(damaged) - (not size_kept)))
    if not seen:
        verify(folder, only)
        return
    n = len(damaged)
    says = "its sha256 is not" if size_kept else f"{n - 1} bytes, and the manifest says {n}"
    with pytest.raises(CheckpointError, match=rf"{re.escape(damaged)} is damaged: {says}"):
        verify(folder, only)


def test_weights_that_the_manifest_does_not_name_are_refused_and_notes_are_not(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    (folder / ".nfs.safetensors").write_text("of a file system")
    verify(folder)
    assert groups(folder) == ["model", "optim"]
    (folder / "more.safetensors").write_text("?")
    with pytest.raises(CheckpointError, match="is not in the manifest beside it: remove it"):
        verify(folder)


def test_a_file_that_is_gone_is_named(folder: Path) -> None:
    (folder / "task.json").unlink()
    with pytest.raises(CheckpointError, match=r"task\.json cannot be read"):
        verify(folder)


def test_a_manifest_has_one_rendering_and_names_the_state(folder: Path) -> None:
    manifest = folder / "MANIFEST.json"
    text = manifest.read_text()
    changes = (("state.json", "other.json"), ("task.json", "../task.json"), ("}", "} "))
    for other in ("{}", text + "\n", *(text.replace(*change) for change in changes)):
        manifest.write_text(other)
        with pytest.raises(CheckpointError, match=r"MANIFEST\.json is damaged"):
            verify(folder)
    manifest.unlink()
    with pytest.raises(CheckpointError, match=r"is no complete checkpoint: it has no MANIFEST\.json"):
        groups(folder)


def test_a_manifest_of_an_earlier_version_is_still_read(tmp_path: Path) -> None:
    """As version 0.1 wrote it; the hash is that of `{}`."""
    (tmp_path / "state.json").write_text("{}")
    sha256 = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    text = f'{{\n "state.json": {{\n  "size": 2,\n  "sha256": "{sha256}"\n }}\n}}'
    (tmp_path / "MANIFEST.json").write_text(text)
    verify(tmp_path)
    write_manifest(tmp_path, ["state.json"])
    assert (tmp_path / "MANIFEST.json").read_text() == text
