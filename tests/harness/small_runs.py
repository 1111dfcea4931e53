"""A run of the letters plugin on disk, as training leaves it behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from s2s.checkpoint import directory as checkpoint
from s2s.compose import ComposedConfig, compose
from s2s.config import Config
from s2s.distributed import World
from s2s.plugin import Plugins, load_plugins
from s2s.run.directory import RunDirectory

if TYPE_CHECKING:
    from s2s.model import Seq2Seq

PLUGIN = str(Path(__file__).with_name("letters_plugin.py"))
CPU = torch.device("cpu")


def letters_plugins() -> Plugins:
    """All that is installed, and the letters plugin."""
    return load_plugins([PLUGIN])


def letters_config(plugins: Plugins, *arguments: str) -> ComposedConfig[Config]:
    """A configuration of the letters plugin."""
    return compose(Config, ["task=letters", "arch=tiny", f"plugins=[{PLUGIN}]", *arguments], plugins)


def build(composed: ComposedConfig[Config], plugins: Plugins, folder: Path) -> Seq2Seq:
    """A model; the task learns its symbols into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    task = plugins.registry.get("task", "letters").build(composed.config.task)
    task.learn(folder)
    return plugins.hook.s2s_build_model(config=composed.config, vocab=task.vocab, registry=plugins.registry)


def begin(path: Path, plugins: Plugins, *arguments: str) -> list[str]:
    """Start or continue a run; its warnings."""
    with RunDirectory(path) as run:
        warnings = run.begin(letters_config(plugins, *arguments), plugins, World())
        run.set_as_last()
        return warnings


def read(path: Path) -> dict[str, Any]:
    """An object in a file of JSON."""
    return json.loads(path.read_text())


def make_run(path: Path, plugins: Plugins, steps: list[int], **state: Any) -> dict[int, dict[str, torch.Tensor]]:
    """A run with checkpoints of other weights at each of these steps; their weights."""
    composed = letters_config(plugins)
    weights = {}
    with RunDirectory(path) as run:
        run.begin(composed, plugins, World())
        prepared = path.parent / "prepared-tokenizer"
        model = build(composed, plugins, prepared)
        run.copy_tokenizer(prepared)
        for step in steps:
            torch.manual_seed(step)
            torch.nn.init.normal_(model.embed.weight)
            weights[step] = {name: t.clone() for name, t in model.state_dict().items()}
            groups = {"model": model.state_dict(), "optim": {"0.exp_avg": torch.zeros(3)}}
            checkpoint.save(run.checkpoints, checkpoint.step_name(step), groups, {"step": step, **state})
    return weights
