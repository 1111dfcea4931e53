"""The arguments of a command line, sorted by kind, and written from options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from harness.toy_plugins import toy_plugins
from s2s.compose import arguments_of, compose
from s2s.compose.arguments import local_plugins, read_arguments
from s2s.config import Config, GenerateConfig
from s2s.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "choice_last",
    [["search.beam=8", "search=beam"], ["search.beam=8", "search={name: beam}"], ["search.beam=8", "search={beam: 3}"]],
    ids=lambda arguments: arguments[-1],
)
def test_a_group_is_chosen_before_its_options_are_set(choice_last: list[str]) -> None:
    for arguments in (choice_last, choice_last[::-1]):
        made = compose(Config, ["task=copy", "arch=wide", *arguments], toy_plugins())
        assert made.config.search.beam == 8  # type: ignore[attr-defined]


def test_local_plugins_are_read_off_the_other_arguments() -> None:
    assert local_plugins(["task=copy", "plugins=[a,./b.py]", "seed=1", "plugins=c"]) == ("a", "./b.py", "c")
    assert local_plugins(["task=copy"]) == ()


@pytest.mark.parametrize("value", ["5", "[a,5]", "true", "~", "", "''", "[a,'']", "{a: 1}"])
def test_a_plugin_is_named_by_text(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        local_plugins([f"plugins={value}"])
    assert str(caught.value) == (f"plugins={value}: expected modules or files, such as plugins=[my_arch,./mine.py]")


@dataclass(kw_only=True)
class OfAPlugin:
    """s2s-it: an option whose value is a mapping."""

    weights: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("schema", "options", "arguments"),
    [
        (GenerateConfig, {"run": "010"}, ["run='010'"]),
        (GenerateConfig, {"search": "beam"}, ["search=beam"]),
        (GenerateConfig, {"search": {"name": "beam", "alpha": 0.6}}, ["search=beam", "search.alpha=0.6"]),
        (GenerateConfig, {"search.beam": 8, "run": ["a", "b"]}, ["search.beam=8", "run=[a, b]"]),
        (GenerateConfig, {"run": {"a": "b"}, "unknown": {"name": "c"}}, ["run={a: b}", "unknown={name: c}"]),
        (OfAPlugin, {"weights": {"name": 1, "b": [2]}}, ["weights={name: 1, b: [2]}"]),
    ],
    ids=str,
)
def test_options_are_written_as_arguments(schema: type, options: dict[str, Any], arguments: list[str]) -> None:
    assert arguments_of(schema, options) == arguments


def test_of_several_neighbours_the_nearest_file_is_suggested(tmp_path: Path) -> None:
    for name in ("train_en.yaml", "train_de.yaml", "train_def.yml"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError) as caught:
        read_arguments([str(tmp_path / "train_d.yaml")])
    assert str(caught.value).endswith(f"train_d.yaml. Did you mean '{tmp_path / 'train_de.yaml'}'?")
