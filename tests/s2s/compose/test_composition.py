"""A choice by itself, with the sections of a run around it."""

from __future__ import annotations

import pytest

from harness.toy_plugins import EncoderConfig, RateConfig, WideConfig, toy_plugins
from s2s.compose import choice_config
from s2s.compose.composition import build_config, merge_groups
from s2s.config import Config
from s2s.errors import ConfigError

REGISTRY = toy_plugins().registry


def test_a_choice_inside_another_one_has_its_own_options() -> None:
    longest = Config().data.max_len
    assert choice_config("arch", "wide", {}, REGISTRY) == WideConfig(
        name="wide", max_len=longest, encoder=EncoderConfig(n_layers=4)
    )
    assert choice_config("arch", "wide_big", {"dropout": 0.3, "encoder": {"n_layers": 2}}, REGISTRY) == WideConfig(
        name="wide", d_model=1024, dropout=0.3, max_len=longest, encoder=EncoderConfig(n_layers=2)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d_modl": 3}, r"^arch=wide_big: arch\.d_modl: no such option\. Did you mean 'arch\.d_model'\?$"),
        ({"d_model": "x"}, r"^arch=wide_big: arch\.d_model=x: expected int; the default is 512\.$"),
        ({"d_model": 3}, r"^arch\.d_model=3 must be a multiple of arch\.n_heads=8$"),
    ],
)
def test_an_error_in_such_a_choice_names_it(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choice_config("arch", "wide_big", options, REGISTRY)


def test_groups_by_themselves_follow_each_other_and_the_sections_of_a_run() -> None:
    merged = merge_groups(["arch", "schedule"], ["arch=wide", "arch.d_model=64", "schedule=noam"], toy_plugins())
    config = build_config(merged).config
    assert config.schedule == RateConfig(name="noam", d_model=64)
    assert (config.arch.max_len, config.train) == (Config().data.max_len, Config().train)
    assert not hasattr(config, "task"), "a group that was not asked for"
