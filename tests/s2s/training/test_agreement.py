"""What ranks must agree on: each difference is named, and nothing else is taken for one."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from harness.shipped_plugins import shipped
from harness.tiny_runs import SMALL
from s2s.compose import compose, flatten
from s2s.config import Config
from s2s.distributed import World
from s2s.errors import ConfigError
from s2s.training import agreement
from s2s.training.agreement import OWN, VARIABLES, check_agreement, disagreement, options_of, weights_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_PLUGINS: Any = SimpleNamespace(loaded={}, modules={})
PREFIX = "ranks 0 and 1 were given different things: "


@pytest.fixture(scope="module")
def config() -> Config:
    return compose(Config, SMALL, shipped()).config


def changed(config: Any, key: str, value: Any) -> Any:
    """The configuration with one option changed, without any check of its value."""
    section, _, name = key.rpartition(".")
    target = getattr(config, section) if section else config
    copy = object.__new__(type(target))
    copy.__dict__.update(target.__dict__ | {name: value})
    return replace_section(config, section, copy) if section else copy


def replace_section(config: Any, section: str, value: Any) -> Any:
    copy = object.__new__(type(config))
    copy.__dict__.update(config.__dict__ | {section: value})
    return copy


def test_every_option_that_differs_is_named_with_both_values(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "versions", lambda _: {})
    whole = options_of(config, NO_PLUGINS)
    keys = [key for key in flatten(config) if key not in OWN]
    assert len(keys) > 60
    for key in keys:
        other = options_of(changed(config, key, "another"), NO_PLUGINS)
        assert disagreement([whole, other]).startswith(f"{PREFIX}{key} is "), key
        assert disagreement([whole, other]).endswith(" and another"), key
        assert disagreement([whole, whole, other]).startswith("ranks 0 and 2 "), key


def test_a_folder_of_prepared_data_and_the_index_of_a_device_may_differ(config: Config) -> None:
    several = [
        changed(changed(config, "train.device", f"cuda:{rank}"), "data.prepared", f"/scratch/{rank}") for rank in "01"
    ]
    assert disagreement([options_of(one, NO_PLUGINS) for one in several]) is None


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_the_environment_that_changes_numbers_is_named(
    config: Config, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    without = options_of(config, NO_PLUGINS)
    monkeypatch.setenv(name, "x")
    assert disagreement([without, options_of(config, NO_PLUGINS)]) == f"{PREFIX}{name} is null and x"


def test_another_version_or_another_plugin_is_named(config: Config) -> None:
    one = options_of(config, shipped())
    assert {"python", "torch", "numpy", "s2s-toolkit", "sentencepiece", "a hash of s2s"} <= one.keys()
    assert disagreement([one, {**one, "torch": "1.0"}]).startswith(f"{PREFIX}torch is ")
    plugin = next(key for key in one if key.startswith("a hash of plugin"))
    own = {key: value for key, value in one.items() if key != plugin}
    assert disagreement([one, own]) == f"{PREFIX}{plugin} is {one[plugin][:60]}… and not given"
    assert disagreement([own, one]) == f"{PREFIX}{plugin} is not given and {one[plugin][:60]}…"


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        ({"a": math.nan}, {"a": math.nan}, None),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, None),
        ({"a": 1}, {"a": "1"}, "a is 1 and '1'"),
        ({"a": None}, {}, "a is null and not given"),
        ({"a": [1, 2]}, {"a": [2, 1]}, "a is [1, 2] and [2, 1]"),
        (dict.fromkeys("abcde", 1), dict.fromkeys("abcde", 2), "a is 1 and 2, b is 1 and 2, c is 1 and 2, and 2 more"),
        ({"a": "x" * 500 + "y"}, {"a": "x" * 500 + "z"}, "a is …" + "x" * 59 + "y and …" + "x" * 59 + "z"),
    ],
    ids=["not a number", "order", "type", "absent", "list", "many", "long"],
)
def test_values_are_compared_and_shown(one: dict[str, Any], two: dict[str, Any], said: str | None) -> None:
    assert disagreement([one, two]) == (PREFIX + said if said else None)


def gathered(others: list[Mapping[str, Any]]) -> World:
    """A world whose other ranks were given these."""

    class Several(World):
        def all_gather(self, value: Any) -> list[Any]:
            hashes = [str(other) for other in others]
            return [value, *(hashes if isinstance(value, str) else others)]

        def barrier(self) -> None:
            raise RuntimeError("Connection closed by peer")

    return Several(size=1 + len(others))


def test_one_process_agrees_with_itself_and_is_not_asked() -> None:
    check_agreement(World(), lambda: pytest.fail("computed"))


def test_all_ranks_raise_the_same_error_even_if_others_have_ended() -> None:
    with pytest.raises(ConfigError, match=r"^ranks 0 and 1 were given different things: seed is 1 and 7; start all"):
        check_agreement(gathered([{"seed": 7}]), lambda: {"seed": 1})


def test_initial_weights_differ_by_a_bit_a_name_a_shape_or_a_type() -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    before = weights_of(model)
    assert weights_of(model) == before
    model.weight.data[1, 2] = torch.nextafter(model.weight[1, 2], torch.tensor(9.0))
    assert weights_of(model) != before
    models = [nn.Linear(2, 2), nn.Linear(4, 1, bias=False), nn.Bilinear(1, 2, 1), nn.Linear(2, 2).half(), nn.ReLU()]
    for other in models:
        for parameter in other.parameters():
            nn.init.zeros_(parameter)
    assert len({str(weights_of(other)) for other in models}) == len(models)
