"""Options under their names in another program, both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from s2s.errors import CheckpointError, ConfigError
from s2s.foreign import ForeignFormat, NameTable, OptionNames
from s2s.registry import Choice


@dataclass(kw_only=True)
class Config(Choice):
    layers: int = 2
    norm: str = "post"
    bias: bool = True
    eps: float = 1e-6


class Format(ForeignFormat):
    title = "Other"
    options = (
        OptionNames("layers", ["n_enc", "n_dec"]),
        OptionNames("norm", ["pre_norm"], {"post": False, "pre": True}, {"before": "pre"}, default=False),
    )
    implied: ClassVar = {"bias": (True,)}
    assumed: ClassVar = {"eps": 1e-5}

    def names(self, config: Any) -> NameTable:
        return NameTable([])


@pytest.mark.parametrize("config", [Config(), Config(layers=7, norm="pre", eps=0.1)], ids=["default", "other"])
def test_options_are_read_as_they_were_written(config: Config) -> None:
    options = Format().write_options(config)
    assert options == {"n_enc": config.layers, "n_dec": config.layers, "pre_norm": config.norm == "pre"}
    expected = {"layers": config.layers, "norm": config.norm, "bias": True, "eps": 1e-5}
    assert Format().read_options(options, {}) == expected


@pytest.mark.parametrize(("value", "norm"), [("before", "pre"), (True, "pre"), (None, "post")])
def test_synonyms_and_defaults_are_read(value: Any, norm: str) -> None:
    config = {"n_enc": 1, "n_dec": 1} | ({} if value is None else {"pre_norm": value})
    assert Format().read_options(config, {})["norm"] == norm


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (Config(bias=False), "arch.bias=false: Other has only true"),
        (Config(norm="none"), "arch.norm=none: Other has only post or pre"),
    ],
    ids=["implied", "value"],
)
def test_an_option_that_cannot_be_written_is_named(config: Config, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Format().write_options(config)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ({"n_enc": 1}, "n_enc=1 and n_dec=None differ; arch.layers is one for both"),
        ({}, "the configuration has no n_enc"),
        ({"n_enc": 1, "n_dec": 1, "pre_norm": "x"}, "pre_norm=x is unknown here; known: False, True, before"),
    ],
    ids=["differ", "missing", "unknown"],
)
def test_an_option_that_cannot_be_read_is_named(config: dict[str, Any], error: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        Format().read_options(config, {})
    assert str(caught.value) == error
