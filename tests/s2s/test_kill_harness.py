"""The harness itself, on a training of a few lines: it passes what is right and catches what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from kill_harness import consumed, fingerprint, kill_again_and_again, note
from torch import nn

from s2s import checkpoint

if TYPE_CHECKING:
    from pathlib import Path

N_STEPS = 40


def train(folder: Path, *, remember_data: bool = True) -> None:
    """Adam on noise, with dropout, saved after every update; all that is random is a function of the step."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    done = _resume(folder, model, optimizer)
    for step in range(done + 1, N_STEPS + 1):
        batch = step if remember_data else step - done
        note(folder, step, [batch, batch + 1])
        torch.manual_seed(batch)
        optimizer.zero_grad()
        (model(torch.randn(8, 16)) ** 2).sum().backward()
        optimizer.step()
        _save(folder, step, model, optimizer)


def train_forgetfully(folder: Path) -> None:
    """The mistake to catch: a resumed run begins with the first batch again."""
    train(folder, remember_data=False)


def train_on_broken_checkpoints(folder: Path) -> None:
    """The other mistake to catch: a run that cannot go on after a kill."""
    if (folder / "half").exists():
        raise RuntimeError("unreadable checkpoint")
    (folder / "half").touch()
    train(folder)
    (folder / "half").unlink()


def _resume(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    newest = checkpoint.newest(folder / "checkpoints")
    assert not newest.skipped, f"a kill has left a damaged checkpoint: {newest.skipped}"
    if newest.path is None:
        return 0
    found = checkpoint.load(newest.path)
    checkpoint.load_weights(model, found.tensors["model"], newest.path)
    optimizer.load_state_dict(checkpoint.unpack(found.state["optim"], found.tensors["optim"]))
    return int(found.state["step"])


def _save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    described, tensors = checkpoint.pack(optimizer.state_dict())
    groups = {"model": model.state_dict(), "optim": tensors}
    folder /= "checkpoints"
    checkpoint.save(folder, checkpoint.step_name(step), groups, {"step": step, "optim": described})
    checkpoint.prune(folder, checkpoint.steps(folder)[-2:])


def test_twenty_five_kills_change_no_byte(tmp_path: Path) -> None:
    report = kill_again_and_again(f"{__file__}:train", tmp_path, n_kills=25)
    assert report.n_kills == 25
    expected = fingerprint(report.whole / "checkpoints")
    assert list(expected) == ["step-000040/model.safetensors", "step-000040/optim.safetensors"]
    for run in report.runs:
        assert fingerprint(run / "checkpoints") == expected
        assert consumed(run) == consumed(report.whole)
        assert sorted(consumed(run)) == list(range(1, N_STEPS + 1))


@pytest.mark.slow
def test_a_run_that_forgets_its_place_in_the_data_is_caught(tmp_path: Path) -> None:
    report = kill_again_and_again(f"{__file__}:train_forgetfully", tmp_path, n_kills=5)
    expected = fingerprint(report.whole / "checkpoints")
    assert any(fingerprint(run / "checkpoints") != expected for run in report.runs)


@pytest.mark.slow
def test_a_run_that_cannot_go_on_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="unreadable checkpoint"):
        kill_again_and_again(f"{__file__}:train_on_broken_checkpoints", tmp_path, n_kills=25)
