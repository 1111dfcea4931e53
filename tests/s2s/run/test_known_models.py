"""Records of which runs published models have become: what they are read for, and when they are removed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from s2s.io import cache_folder
from s2s.plugin import load_plugins
from s2s.run import known_models
from s2s.run.known_models import known_run, record_run
from s2s.run.origin import RECORD

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_folder("models")


def made(tmp_path: Path, name: str) -> tuple[Path, Path]:
    """A model's folder, and the run that it has become; recorded."""
    model, run = tmp_path / name, cache_folder("models") / f"{name}-run"
    for file in (model / "weights", run / RECORD):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    record_run(model, load_plugins(), [model / "weights"], run)
    return model, run


def records(cache: Path) -> list[str]:
    return sorted(json.loads(file.read_text())["run"] for file in cache.glob(".*.json"))


def test_a_model_that_changes_again_and_again_has_one_record(tmp_path: Path, cache: Path) -> None:
    model, run = made(tmp_path, "one")
    for i in range(5):
        (model / f"readme{i}").write_text("other")
        assert known_run(model, load_plugins()) is None
        record_run(model, load_plugins(), [model / "weights"], run)
        assert known_run(model, load_plugins()) == run
    assert records(cache) == ["one-run"]


def test_a_file_in_one_folder_with_others_has_a_record_of_its_own(tmp_path: Path, cache: Path) -> None:
    model, run = made(tmp_path, "one")
    other = model / "other"
    other.write_text("y")
    record_run(model, load_plugins(), [model / "weights"], run)
    record_run(other, load_plugins(), [other], run)
    assert known_run(other, load_plugins()) == known_run(model, load_plugins()) == run
    assert records(cache) == ["one-run", "one-run"]


@pytest.mark.parametrize("gone", ["model", "run", "record"])
def test_records_of_what_is_gone_are_removed_with_the_next_model(gone: str, tmp_path: Path, cache: Path) -> None:
    made(tmp_path, "kept")
    model, run = made(tmp_path, "one")
    assert records(cache) == ["kept-run", "one-run"]
    if gone == "record":
        for file in cache.glob(".*.json"):
            if "one-run" in file.read_text():
                file.write_text("[]")
    else:
        shutil.rmtree(model if gone == "model" else run)
    made(tmp_path, "two")
    assert records(cache) == ["kept-run", "two-run"]


def test_records_of_another_version_are_neither_used_nor_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = made(tmp_path, "one")
    monkeypatch.setattr(known_models, "VERSION", known_models.VERSION + 1)
    assert known_run(model, load_plugins()) is None
    made(tmp_path, "two")
    assert records(cache) == ["two-run"]


def test_other_files_of_the_cache_stay(tmp_path: Path, cache: Path) -> None:
    _, run = made(tmp_path, "one")
    lock = cache / f".{run.name}.lock"
    lock.write_text("")
    made(tmp_path, "two")
    assert lock.exists()


def test_a_model_that_does_not_exist_is_not_recorded(tmp_path: Path, cache: Path) -> None:
    record_run(tmp_path / "none", load_plugins(), [], cache / "run")
    assert known_run(tmp_path / "none", load_plugins()) is None
    assert not cache.exists()
