"""Which files a run names outside of the working folder and its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from s2s.errors import DataError
from s2s.registry import Choice
from s2s.run import outside_files
from s2s.task import Dependencies

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(kw_only=True)
class Corpora(Choice):
    """Options that name files, in any form."""

    train: Any = None
    nested: dict[str, Any] = field(default_factory=dict)
    separator: str = "/"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder and a run elsewhere, each with a text, and a secret outside of both."""
    for name in ("here", "run", "run/data", "elsewhere"):
        (tmp_path / name).mkdir()
    for name in ("here/a.de", "run/data/a.de", "elsewhere/secret"):
        (tmp_path / name).write_text("x\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def named(place: Path, *files: Any, depends: Any = (), **nested: Any) -> list[str]:
    def dependencies() -> Dependencies:
        if isinstance(depends, Exception):
            raise depends
        return Dependencies(list(depends), {})

    task: Any = SimpleNamespace(config=Corpora(train=list(files), nested=nested), dependencies=dependencies)
    return [str(path) for path in outside_files(task, place / "run")]


def test_texts_of_the_working_folder_and_of_the_run_are_not_outside(place: Path) -> None:
    assert named(place, "a.de", "../here/a.de", str(place / "run/data/a.de"), str(place / "run" / "data"), "gone") == []
    assert named(place, "en", "/", "..", "x" * 5000, "\0", "~nobody-of-this-name/x") == []


def test_a_file_elsewhere_is_named_in_whatever_form_and_whatever_link_leads_there(place: Path) -> None:
    secret = str(place / "elsewhere" / "secret")
    assert named(place, secret) == [secret]
    assert named(place, "../elsewhere/secret") == ["../elsewhere/secret"]
    assert named(place, x=[{"files": [secret]}]) == [secret]
    assert named(place, depends=[place / "elsewhere" / "secret"]) == [secret]
    assert named(place, str(place / "elsewhere"))[0] == str(place / "elsewhere")
    link = place / "run" / "data" / "innocent"
    link.symlink_to(secret)
    assert named(place, str(link)) == [str(link)]
    assert named(place, str(place / "run" / "data")) == [str(link)], "in a folder"


def test_a_corpus_that_is_gone_is_no_error(place: Path) -> None:
    secret = str(place / "elsewhere" / "secret")
    assert named(place, secret, depends=DataError("gone")) == [secret]
