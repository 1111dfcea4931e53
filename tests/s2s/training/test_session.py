"""When a run is done, and what is shown before its first update."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from s2s.compose import Setting, compose
from s2s.config import Config, TrainConfig
from s2s.config.run import ValidConfig
from s2s.plugin import load_plugins
from s2s.training.session import is_finished, startup_facts


def config(*arguments: str) -> Any:
    return compose(Config, ["task=translation_tiny", "arch=transformer_tiny", *arguments], load_plugins())


@pytest.mark.parametrize(
    ("status", "patience", "finished"),
    [
        ({}, 0, False),
        ({"state": "done", "steps": 100}, 0, True),
        ({"state": "done", "steps": 101}, 0, True),
        ({"state": "done", "steps": 99}, 0, False),
        ({"state": "failed", "steps": 100}, 0, False),
        ({"state": "done", "steps": 50, "stopped_early": True, "n_stale": 3}, 3, True),
        ({"state": "done", "steps": 50, "stopped_early": True, "n_stale": 3}, 4, False),
        ({"state": "done", "steps": 50, "stopped_early": True, "n_stale": 3}, 0, False),
        ({"state": "done", "steps": 50, "stopped_early": True}, 1, False),
        ({"state": "done", "steps": 50, "stopped_early": True, "n_stale": 1}, 1, True),
        ({"state": "done", "steps": 50, "n_stale": 3}, 3, False),
    ],
    ids=str,
)
def test_a_run_is_finished_with_its_updates_or_its_patience(
    status: dict[str, Any], patience: int, finished: bool
) -> None:
    own = Config(train=TrainConfig(steps=100), valid=ValidConfig(patience=patience))
    assert is_finished(status, own) is finished


def test_a_status_that_says_nothing_of_updates_counts_none() -> None:
    assert is_finished({"state": "done"}, Config(train=TrainConfig(steps=1))) is False
    assert is_finished({"state": "done"}, Config(train=TrainConfig(steps=0))) is True


def trainer(own: Any, **changes: Any) -> Any:
    model = nn.Linear(40, 30)  # 1,230 parameters
    backend = SimpleNamespace(describe=lambda device: [f"on {device}"])
    values = {
        "config": own,
        "world": SimpleNamespace(device=torch.device("cpu"), size=1),
        "train_step": SimpleNamespace(model=model, backend=backend),
        "facts": [("task", "a fact")],
        "peak_flops": 0.0,
        "validation": True,
        "directory": "runs/x",
    }
    return SimpleNamespace(**{**values, **changes})


def test_the_first_screen_has_options_model_device_update_and_directory() -> None:
    composed = config("train.tokens=3000", "train.micro_tokens=1500", "train.steps=12_000", "run=x")
    plugins: Any = SimpleNamespace(loaded={"core": "s2s-toolkit 0.1"})
    shown = list(startup_facts(composed, trainer(composed.config), plugins))
    assert shown == [
        *shown[:1],
        *composed.notes,
        ("task", "a fact"),
        ("model", "1,230 parameters, transformer"),
        ("device", "cpu, fp32, 1 thread"),
        ("backend", "on cpu"),
        ("update", "3,000 tokens a side, 1,500 at once, 12,000 updates"),
        ("run", "runs/x; stop it at any time: the same command continues it"),
    ]
    topic, options = shown[0]
    assert topic == "config"
    assert "train.tokens=3000" in options.split("  ")
    assert "train.clip" not in options, "a default is not shown"


@pytest.mark.parametrize(
    ("preset", "decided", "name"),
    [
        ("transformer_base", "", "transformer_base"),
        ("transformer_base", "arch.d_model=64", "transformer"),
        ("transformer_base", "train.clip=2", "transformer_base"),
    ],
)
def test_a_preset_that_a_plan_has_changed_is_not_named(preset: str, decided: str, name: str) -> None:
    """`arch=transformer_base` beside a width of 64 would name another model than the one that is trained."""
    key, _, value = decided.partition("=")
    settings = [Setting(tuple(key.split(".")), int(value), "recipe=auto: 8,000 pairs")] if decided else []
    composed = compose(
        Config,
        ["task=translation_tiny", f"arch={preset}", "run=x", "train.micro_tokens=null"],
        load_plugins(),
        settings,
    )
    plugins: Any = SimpleNamespace(loaded={})
    (options,) = (
        text for topic, text in startup_facts(composed, trainer(composed.config), plugins) if topic == "config"
    )
    assert options.split("  ")[:2] == ["task=translation_tiny", f"arch={name}"]


def test_what_is_special_has_a_line_of_its_own() -> None:
    composed = config("train.micro_tokens=null")
    plugins: Any = SimpleNamespace(loaded={"core": "s2s-toolkit 0.1", "own": "/tmp/own.py"})
    world = SimpleNamespace(device=torch.device("cpu"), size=2)
    shown = list(
        startup_facts(composed, trainer(composed.config, world=world, peak_flops=2.5e12, validation=False), plugins)
    )
    assert ("device", "cpu, fp32, 2 processes, 1 thread") in shown
    assert ("backend", "mfu 100%: 2,500 GFLOP/s, as measured for large matrix products") in shown
    assert ("plugins", "own (/tmp/own.py)") in shown
    assert ("valid", "no development set is given (task.valid): no validation, and no best checkpoint") in shown
    assert not any("at once" in text for _, text in shown)
