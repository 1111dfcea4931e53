"""Without a plugin that plans, what is left open is refused, or as plain as it can be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from s2s.config import Config, TrainConfig
from s2s.errors import ConfigError
from s2s.registry import Registry
from s2s.training import BatchPlan, Planner
from s2s.training.planner import planner_of

NOTHING: Any = None


def plugins(planner: Planner | None = None) -> Any:
    registry = Registry()
    registry.blocked = {"plan": "s2s_plan"}
    return SimpleNamespace(hook=SimpleNamespace(s2s_plan=lambda config, plugins: planner), registry=registry)


def composed(recipe: str) -> Any:
    return SimpleNamespace(config=SimpleNamespace(recipe=SimpleNamespace(name=recipe)))


def test_a_run_that_is_not_named_has_the_name_of_its_task_and_architecture() -> None:
    config: Any = SimpleNamespace(chosen={"task": "translation", "arch": "rnn", "optim": "adam"})
    assert Planner(plugins()).run_name(config) == "translation-rnn"


@pytest.mark.parametrize("recipe", ["", "none"])
def test_without_a_recipe_the_configuration_stays(recipe: str) -> None:
    given = composed(recipe)
    assert Planner(plugins()).configure(given, None) is given


def test_what_nothing_decides_is_refused() -> None:
    planner, hint = Planner(plugins()), r"\. Left out by S2S_BLOCK_PLUGINS or S2S_NO_PLUGINS: plan\.$"
    with pytest.raises(ConfigError, match=r"^recipe=ours: no loaded plugin chooses a value; leave it out" + hint):
        planner.configure(composed("ours"), None)
    with pytest.raises(
        ConfigError, match=r"^train\.precision=auto: no loaded plugin chooses a value; give fp32 or bf16" + hint
    ):
        planner.precision(NOTHING, [], NOTHING)
    with pytest.raises(
        ConfigError, match=r"^train\.tokens=auto: no loaded plugin chooses a value; give a number" + hint
    ):
        planner.batch(Config(train=TrainConfig(tokens="auto")), NOTHING, [], NOTHING)


@pytest.mark.parametrize(("micro_tokens", "at_once"), [(10, 10), (None, None), ("auto", None)])
def test_a_batch_is_as_large_as_it_is_given(micro_tokens: Any, at_once: int | None) -> None:
    config = Config(train=TrainConfig(tokens=30, micro_tokens=micro_tokens))
    assert Planner(plugins()).batch(config, NOTHING, [], NOTHING) == BatchPlan(30, at_once)
    assert list(Planner(plugins()).facts(NOTHING)) == []


def test_a_plugin_may_provide_another() -> None:
    other = Planner(plugins())
    assert planner_of(Config(), plugins(other)) is other
    own = plugins()
    assert planner_of(Config(), own) == Planner(own)
