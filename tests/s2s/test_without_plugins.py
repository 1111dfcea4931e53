"""Where a plugin that an option needs is blocked, the core raises an error, and never skips the setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.capital_tasks import Capitals
from harness.generators import generator_of
from harness.table_model import Table
from s2s.backend import graph_decoding, providers
from s2s.compose import compose
from s2s.config import Config, GenerateConfig, TrainConfig
from s2s.data import tokenizer_kind
from s2s.decoding import BeamConfig, BeamSearch
from s2s.distributed.sharding import OneProcess
from s2s.distributed.strategy import chosen_strategy, join
from s2s.errors import ConfigError, DataError
from s2s.generation import Generator, Input
from s2s.generation.acceleration import capture_steps
from s2s.plugin import Plugins, load_plugins
from s2s.training.batch_plan import BatchPlan
from s2s.training.build import _Builder
from s2s.training.planner import planner_of

BLOCKED = "alignment,constraints,cuda,distributed,mbr,plan,sentencepiece"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plugins:
    """All plugins but those that these options need."""
    monkeypatch.setenv("S2S_BLOCK_PLUGINS", BLOCKED)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    return load_plugins()


def generator(plugins: Plugins, **options: Any) -> Generator:
    return generator_of(Table(30), Capitals(), BeamSearch(BeamConfig()), GenerateConfig(**options), plugins)


@pytest.mark.parametrize(
    "argument",
    ["bad_words=[a]", "mbr=chrf", "coverage=0.2", "replace_unk=true"],
)
def test_an_option_goes_with_its_plugin(bare: Plugins, argument: str) -> None:
    name, blocked = argument.partition("=")[0], BLOCKED.replace(",", ", ")
    left_out = f"Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: {blocked}."
    said = f"^{name}: no such option. No loaded plugin offers it. {left_out}"
    with pytest.raises(ConfigError, match=said):
        compose(GenerateConfig, [argument], bare)


def test_words_are_not_aligned(bare: Plugins) -> None:
    with pytest.raises(ConfigError, match=r"fields=\['align'\]: no loaded plugin aligns words. Left out by"):
        generator(bare, format="jsonl", fields=["align"])


def test_what_an_output_must_contain_is_not_left_out(bare: Plugins) -> None:
    with pytest.raises(DataError, match="no loaded plugin constrains outputs to them"):
        list(generator(bare)([Input("abc", prefix="x")]))


def test_one_process_trains(bare: Plugins) -> None:
    config = compose(Config, ["task=translation", "arch=transformer_tiny"], bare).config
    assert chosen_strategy(config.train, bare.registry) is None
    builder = _Builder(config, bare, join(config.train, bare.registry), None, None)  # type: ignore[arg-type]
    assert isinstance(builder.sharding(), OneProcess)


def test_steps_are_not_captured(bare: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "pending", [])
    monkeypatch.setattr(graph_decoding, "implementations", ())
    assert capture_steps([Table(30)]) == "steps eager, since no plugin captures them"
    with pytest.raises(ConfigError, match="graph=true: no loaded plugin captures steps"):
        capture_steps([Table(30)], requested=True)


def test_memory_is_not_measured(bare: Plugins) -> None:
    config = Config(train=TrainConfig(micro_tokens="auto"))
    planner = planner_of(config, bare)
    train_step: Any = None
    assert planner.batch(config, train_step, [], Path("run")) == BatchPlan(25_000)
    config.train.tokens = "auto"
    with pytest.raises(ConfigError, match=r"train\.tokens=auto: no loaded plugin chooses a value; give a number"):
        planner.batch(config, train_step, [], Path("run"))


def test_a_tokeniser_is_missed_by_its_name(bare: Plugins) -> None:
    with pytest.raises(ConfigError, match=r"task\.subword=bpe: no such tokenizer"):
        tokenizer_kind("bpe", bare.registry)
