"""Metrics that a configuration names, with a registry of two that only keep their options."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from s2s.errors import ConfigError, PluginError
from s2s.metrics import build_metrics
from s2s.registry import Choice, Registry


@dataclass(kw_only=True)
class AlphaConfig(Choice):
    """One option."""

    width: int = 1
    """A number."""


@dataclass(kw_only=True)
class BetaConfig(Choice):
    """Two options."""

    width: int = 2
    """A number."""
    lowercase: bool = False
    """A switch."""


def built(config: Choice) -> Any:
    return SimpleNamespace(name=config.name, config=config)


@pytest.fixture
def registry() -> Registry:
    found = Registry()
    found.metric("alpha", AlphaConfig, built)
    found.metric("beta", BetaConfig, built)
    return found


def task(*metrics: Any, **options: Any) -> Any:
    return SimpleNamespace(metrics=list(metrics), metric_options=options)


def test_a_task_s_own_metrics_are_built_unless_others_are_wanted(registry: Registry) -> None:
    assert [metric.name for metric in build_metrics(task("alpha", "beta"), registry)] == ["alpha", "beta"]
    for wanted in ("beta", ["beta"], {"name": "beta"}, [{"name": "beta"}]):
        assert [metric.name for metric in build_metrics(task("alpha"), registry, wanted)] == ["beta"]
    assert build_metrics(task("alpha"), registry, []) == []


def test_options_apply_to_metrics_that_have_them_and_a_metric_s_own_come_last(registry: Registry) -> None:
    wanted = ["alpha", {"name": "beta", "width": 7}, "beta"]
    metrics = build_metrics(task(width=3, lowercase=True, other=1), registry, wanted, {"width": 5})
    assert [vars(metric.config) for metric in metrics] == [
        {"name": "alpha", "width": 5},
        {"name": "beta", "width": 7, "lowercase": True},
        {"name": "beta", "width": 5, "lowercase": True},
    ]
    assert [metric.name for metric in metrics] == ["alpha", "beta", "beta-2"]


def test_names_that_come_again_are_numbered(registry: Registry) -> None:
    names = [metric.name for metric in build_metrics(task(), registry, ["alpha", "beta", "alpha", "alpha"])]
    assert names == ["alpha", "beta", "alpha-2", "alpha-3"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (5, r"metrics=5: give a list, such as metrics=\[bleu,chrf\]"),
        ([5], r"metrics=\[5\]: give a name, or options with a name"),
        ([{}], r"metrics=\[\{\}\]: give a name, or options with a name"),
        ([{"name": 3}], "give a name, or options with a name"),
        (["gamma"], "metric=gamma: no such metric"),
        ([{"name": "alpha", "lowercase": True}], "lowercase"),
    ],
    ids=str,
)
def test_what_names_no_metric_is_refused(wanted: Any, message: str, registry: Registry) -> None:
    with pytest.raises((ConfigError, PluginError), match=message):
        build_metrics(task(), registry, wanted)


def test_an_option_that_no_metric_here_has_is_refused_with_the_nearest(registry: Registry) -> None:
    message = r"lowercas: no such option of the command or of its metrics here \(alpha, beta\)\..*lowercase"
    with pytest.raises(ConfigError, match=message):
        build_metrics(task("alpha", "beta", "alpha"), registry, None, {"width": 1, "lowercas": True})
    with pytest.raises(ConfigError, match=r"sample: no such option .* \(alpha\)\..*samples"):
        build_metrics(task("alpha"), registry, None, {"sample": 1}, ["samples"])
    with pytest.raises(ConfigError, match="name: no such option"):
        build_metrics(task("alpha"), registry, None, {"name": "beta"})
