"""What a user can do wrong, each as it was found: one line that says what to do, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tiny_runs import SMALL, call, train_tiny

from s2s.checkpoint.manifest import write_manifest

if TYPE_CHECKING:
    from pathlib import Path

CONTINUED = [*SMALL, "train.steps=6", "run=x", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_tiny(folder)
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, to be spoilt."""
    shutil.copytree(trained, tmp_path / "here", symlinks=True)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize(
    "state",
    [
        *({}, [], None, 5, {"progress": {}}, {"progress": {"step": "x"}, "optim": None, "scaler": {}}),
        {"progress": {"steps": 1}, "optim": {"dict": []}, "scaler": {}},
    ],
    ids=repr,
)
def test_a_state_of_another_version_is_no_bug(here: Path, capsys: Any, state: object) -> None:
    folder = here / "runs/x/checkpoints/step-000004"
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "MANIFEST.json").unlink()
    write_manifest(folder, [path.name for path in folder.iterdir()])
    code, _, err = call("s2s-train", CONTINUED, capsys)
    assert code == 2
    assert "step-000004 is whole, but not what this version of s2s saves" in err


def test_prepared_data_goes_into_a_folder_that_can_be(here: Path, capsys: Any) -> None:
    for folder, complaint in {"": "give a folder", "~no-such-user/x": "no such user", "a.en": "choose another"}.items():
        code, _, err = call("s2s-prepare", [*SMALL[:3], f"data.prepared={folder}"], capsys)
        assert code == 2
        assert complaint in err


@pytest.mark.parametrize("seed", [0, 2**62, 2**63 - 1])
def test_any_seed_trains(here: Path, capsys: Any, seed: int) -> None:
    assert call("s2s-train", [*SMALL, "train.steps=1", f"seed={seed}", "run=seeded", "--quiet"], capsys)[0] == 0
