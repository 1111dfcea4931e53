"""Every preset that we ship composes, and every architecture can be built."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.folders import ROOT
from harness.monotonic_guide import OneByOne
from s2s.compose import compose, flatten, to_yaml
from s2s.compose.composition import build_config, merge_groups
from s2s.compose.yaml12 import read_file
from s2s.config import Config, GenerateConfig
from s2s.config.data import PrepareConfig
from s2s.config.score import ScoreConfig
from s2s.errors import ConfigError
from s2s.plugin import Plugins, load_plugins
from s2s.task import Vocab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIGS = ROOT / "configs"
FILES = sorted(path for path in CONFIGS.glob("*/*.yaml") if path.parent.name != "study")
GIVEN = {
    "task.train": "[train.en,train.de]",
    "task.valid": "[valid.en,valid.de]",
    "task.test": "[test.en,test.de]",
    "task.treebank": "wsj",
    "task.style": "train",
    "objective.teachers": "[big]",
}
"""What a preset asks its user for, given."""


@cache
def plugins() -> Plugins:
    return load_plugins()


def chain(group: str, name: str) -> Iterator[dict[str, Any]]:
    """A preset and its bases."""
    while name:
        tree = read_file(CONFIGS / group / f"{name}.yaml")
        yield tree
        name = tree.get("base", "")


def arguments(path: Path) -> list[str]:
    """The preset, what it asks its user for, and what it needs beside it to be a whole configuration."""
    group, name = path.parent.name, path.stem
    trees = list(chain(group, name))
    beside = {"task": "task=translation", "arch": "arch=transformer"} if group != "experiment" else {}
    chosen = {group, *(key for tree in trees for key in tree.get("defaults", {}))}
    prefix = "" if group == "experiment" else f"{group}."
    asked = {prefix + key for tree in trees for key, value in flatten(tree).items() if value == "???"}
    if any(flatten(tree).get("task.synthetic") is False for tree in trees):
        asked.add("task.treebank")
    return [
        *(word for key, word in beside.items() if key not in chosen),
        f"{group}={name}",
        *(f"{key}={GIVEN[key]}" for key in sorted(asked)),
    ]


def n_parameters(config: Config) -> int:
    with torch.device("meta"):
        vocab = Vocab(src=1000, tgt=1000, joint=True, tags=2, labels=range(990, 1000), guide=OneByOne(bos=2))
        model = plugins().hook.s2s_build_model(config=config, vocab=vocab, registry=plugins().registry)
    return sum(p.numel() for p in model.parameters())


def test_there_are_presets() -> None:
    assert {path.parent.name for path in FILES} >= {"arch", "experiment", "task"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}={p.stem}")
def test_a_preset_composes_round_trips_and_builds_a_model(path: Path, tmp_path: Path) -> None:
    made = compose(Config, arguments(path), plugins())
    assert made.origins
    (tmp_path / "resolved.yaml").write_text(to_yaml(made.config), encoding="utf-8")
    (tmp_path / "given.yaml").write_text(to_yaml(made.explicit), encoding="utf-8")
    for name in ("resolved.yaml", "given.yaml"):
        assert compose(Config, [str(tmp_path / name)], plugins()).config == made.config
    assert n_parameters(made.config) > 0


PAPER = {
    "optim": {"name": "adam", "beta1": 0.9, "beta2": 0.98, "eps": 1e-9},
    "schedule": {"name": "noam", "warmup": 4000, "scale": 1.0},
    "objective": {"name": "label_smoothed", "eps": 0.1},
    "search": {"beam": 4, "alpha": 0.6, "length_penalty": "gnmt", "stop": "exact", "max_len_a": 1.0, "max_len_b": 50},
    "train": {"tokens": 25_000, "clip": None},
    "checkpoint": {"every": 0, "minutes": 10},
}
"""Sections 5 and 6.1; what the sizes of model and vocabulary are is tested with the architecture"""
ROWS = {
    "wmt14_en_de": (37_000, 100_000, 5, 0.1, 6.99e-4),
    "wmt14_en_de_big": (37_000, 300_000, 20, 0.3, 4.94e-4),
    "wmt14_en_fr": (32_000, 100_000, 5, 0.1, 6.99e-4),
    "wmt14_en_fr_big": (32_000, 300_000, 20, 0.1, 4.94e-4),
}
"""Vocabulary, updates, averaged checkpoints, dropout, and the highest learning rate"""


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("variant", ["", "_t2t"])
def test_the_papers_experiments_say_what_the_paper_says(name: str, variant: str) -> None:
    path = next((p for p in FILES if p.stem == name + variant), None)
    if path is None:
        assert (name, variant) == ("wmt14_en_fr", "_t2t"), "the released code's settings are those of the big model"
        return
    config = compose(Config, arguments(path), plugins()).config
    for section, values in PAPER.items():
        found = vars(getattr(config, section))
        assert {key: found[key] for key in values} == values
    peak = plugins().registry.get("schedule", "noam").build(config.schedule)(4000)
    task: Any = config.task
    arch: Any = config.arch
    found = task.vocab_size, config.train.steps, config.train.average, arch.dropout
    assert (*found, peak) == (*ROWS[name][:-1], pytest.approx(ROWS[name][-1], rel=1e-3))
    assert config.checkpoint.keep_last >= config.train.average


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "experiment"], ids=lambda p: p.stem)
def test_an_experiment_serves_the_other_commands(path: Path) -> None:
    chosen = [word for word in arguments(path) if word.startswith(("experiment=", "task."))]
    whole = compose(Config, chosen, plugins()).config
    assert compose(PrepareConfig, chosen, plugins()).config.task == whole.task
    assert compose(ScoreConfig, chosen, plugins()).config.task == whole.task
    with pytest.raises(ConfigError, match="s2s-generate does not use it"):
        compose(GenerateConfig, [f"experiment={path.stem}"], plugins())


def entries(group: str) -> list[str]:
    return sorted(name for g, name in plugins().registry.entries if g == group)


@pytest.mark.parametrize("name", entries("arch"))
def test_every_architecture_composes_from_its_defaults_and_builds(name: str) -> None:
    assert n_parameters(compose(Config, ["task=translation", f"arch={name}"], plugins()).config) > 0


REQUIRED = {
    "distill": ["objective.teachers=[big]"],
    "bias": ["logits_transform.texts=[cat]", "logits_transform.bias=-2"],
    "shortlist": ["logits_transform.file=target.txt"],
}
"""Entry -> options that have no default"""


@pytest.mark.parametrize(("group", "name"), sorted(plugins().registry.entries), ids=lambda v: v)
def test_the_defaults_of_every_entry_are_valid_by_themselves(group: str, name: str) -> None:
    aside = {"arch": "arch=transformer"} if group == "schedule" else {}
    required = REQUIRED.get(name, [])
    merged = merge_groups([group, *aside], [f"{group}={name}", *aside.values(), *required], plugins())
    config = getattr(build_config(merged).config, group)
    assert config.name == name
    assert type(config) is plugins().registry.get(group, name).config
