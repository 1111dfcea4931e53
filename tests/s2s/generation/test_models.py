"""One run is loaded as it is; of several, see test_ensemble_generation.py."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from s2s.config import GenerateConfig
from s2s.generation import models
from s2s.generation.models import load_models

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a run is loaded as, whatever its name."""
    (tmp_path / "MANIFEST.json").write_text("{}")
    run = SimpleNamespace(model="the model", checkpoint_path=tmp_path, asked=[], int8={})
    monkeypatch.setattr(models, "find_model", lambda name, _: Path("runs") / name)
    monkeypatch.setattr(models.Run, "load", lambda folder, which, *_: run.asked.append((str(folder), which)) or run)
    return run


@pytest.mark.parametrize(
    "options", [{"run": "x", "checkpoint": "last"}, {"run": ["x"], "checkpoint": ["last"]}], ids=str
)
def test_a_single_run_is_loaded_and_known_by_its_manifest(run: Any, options: dict[str, Any]) -> None:
    found = load_models(GenerateConfig(**options), None, CPU)  # type: ignore[arg-type]
    assert run.asked == [("runs/x", "last")]
    assert (found.first, found.directory, found.model, found.members) == (run, Path("runs/x"), run.model, [run.model])
    assert found.provenance == {"checkpoint": hashlib.sha256(b"{}").hexdigest()}
    assert found.description == ""
