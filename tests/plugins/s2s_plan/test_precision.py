"""train.precision=auto: the choice follows measured times, is kept, and changes nothing but the precision."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from harness.batch_size_process import train_step
from harness.tiny_runs import train_tiny
from s2s.config import TrainConfig
from s2s.errors import ConfigError
from s2s_plan.precision import MOST_TOKENS, N_TURNS, choose_precision, typical_batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from s2s.training import BatchPlan
    from s2s.training.train_step import TrainStep

CORPUS: Any = [(np.full(n, 5), np.full(n + 1, 6)) for n in range(1, 40)]


def auto_step() -> TrainStep:
    """A small train step that is to choose."""
    update = train_step()
    update.config.tokens, update.config.precision = 700, "auto"
    return update


@pytest.mark.parametrize(
    ("burnt", "expected"), [({"fp32": 30, "bf16": 5}, "bf16"), ({"fp32": 5, "bf16": 30}, "fp32")], ids=["bf16", "fp32"]
)
def test_the_faster_one_is_chosen_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, burnt: dict[str, int], expected: str
) -> None:
    """Trials that burn known milliseconds of CPU time take the place of gradients."""
    update = auto_step()
    turns: list[str] = []

    def burn(batch: Sequence[Any], plan: BatchPlan) -> bool:
        turns.append(update.config.precision)
        end = time.process_time() + burnt[update.config.precision] / 1000
        while time.process_time() < end:
            pass
        return bool(batch) and plan.tokens == MOST_TOKENS

    monkeypatch.setattr(update, "trial", burn)
    precision, line = choose_precision(update, [CORPUS], tmp_path)
    assert turns == ["fp32", "bf16"] * (N_TURNS + 1)
    assert precision == expected
    assert line.startswith(f"train.precision={expected}: in bf16 an update takes ")
    assert update.config.tokens == 700


def test_bf16_must_be_clearly_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s_plan.precision._measure", lambda *_: {"fp32": 1.0, "bf16": 0.97})
    update = auto_step()
    assert choose_precision(update, [CORPUS], tmp_path)[0] == "fp32"


def test_a_run_that_continues_keeps_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s2s_plan.precision._measure", lambda *_: {"fp32": 1.0, "bf16": 0.5})
    assert choose_precision(auto_step(), [CORPUS], tmp_path)[0] == "bf16"
    (tmp_path / "checkpoints/step-000001").mkdir(parents=True)
    monkeypatch.setattr("s2s_plan.precision._measure", lambda *_: pytest.fail("measured again"))
    kept = choose_precision(auto_step(), [CORPUS], tmp_path)
    assert kept == ("bf16", "train.precision=bf16, as found when the run began")


def test_a_run_that_saved_nothing_measures_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for bf16, expected in ((0.5, "bf16"), (2.0, "fp32")):
        monkeypatch.setattr("s2s_plan.precision._measure", lambda *_, bf16=bf16: {"fp32": 1.0, "bf16": bf16})
        assert choose_precision(auto_step(), [CORPUS], tmp_path)[0] == expected


def test_a_precision_that_was_given_is_left_alone(tmp_path: Path) -> None:
    train_tiny(tmp_path, "train.precision=bf16", "train.steps=1", "valid.every=0", "valid.score=false")
    assert not (tmp_path / "runs/x/precision.json").exists()
    assert "cpu, bf16" in (tmp_path / "runs/x/train.log").read_text()


def test_another_device_is_refused(tmp_path: Path) -> None:
    device = SimpleNamespace(device=torch.device("cuda"))
    on_gpu: Any = SimpleNamespace(world=device, config=TrainConfig(precision="auto"))
    with pytest.raises(ConfigError, match=r"on cuda give train.precision=bf16"):
        choose_precision(on_gpu, [CORPUS], tmp_path)


def test_until_it_is_chosen_arithmetic_is_that_of_fp32() -> None:
    gradients = {}
    for precision in ("auto", "fp32", "bf16"):
        update = auto_step()
        update.config.precision = precision  # type: ignore[assignment]
        update._gradient([CORPUS[:8]], [], 0, 0, 44)
        gradients[precision] = torch.cat([p.grad.flatten() for p in update.parameters if p.grad is not None])
    assert torch.equal(gradients["auto"], gradients["fp32"])
    assert not torch.equal(gradients["bf16"], gradients["fp32"])


@pytest.mark.parametrize("n_tokens", [1, 50, 300, MOST_TOKENS])
def test_the_batch_has_pairs_of_about_the_median_length_and_fits(n_tokens: int) -> None:
    lengths = [len(tgt) + 1 for _, tgt in typical_batch([CORPUS], n_tokens)]
    assert len(lengths) == 1 or len(lengths) * max(lengths) <= n_tokens
    assert max(lengths) == 22, "20 words make the median source, its target has one more, and eos"


def test_a_run_says_what_was_chosen_and_trains_in_it(tmp_path: Path) -> None:
    train_tiny(tmp_path, "train.precision=auto", "train.steps=1", "valid.every=0", "valid.score=false")
    shown = (tmp_path / "runs/x/train.log").read_text()
    chosen = "bf16" if "train.precision=bf16: in bf16" in shown else "fp32"
    assert f"train.precision={chosen}: in bf16 an update takes " in shown
    assert f"cpu, {chosen}" in shown
