"""A registry in memory, with the smallest entries that show every rule of composition."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from omegaconf import II

from harness.shipped_plugins import shipped
from s2s.compose import compose
from s2s.config import Config
from s2s.errors import ConfigError
from s2s.plugin import Plugins
from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(kw_only=True)
class EncoderConfig:
    """A section inside an architecture."""

    n_layers: int = 6
    """Layers."""


@dataclass(kw_only=True)
class BaseConfig(Choice):
    """What several architectures share."""

    dropout: float = 0.1
    """Dropped outputs
    of each layer."""


@dataclass(kw_only=True)
class WideConfig(BaseConfig):
    """A wide one."""

    d_model: int = 512
    """Width."""
    n_heads: int = 8
    """Heads."""
    norm: Literal["pre", "post"] = "post"
    """Where the norm is."""
    max_len: int = II("data.max_len")
    """Longest sentence."""
    encoder: EncoderConfig = field(default_factory=lambda: EncoderConfig(n_layers=4))
    """One side."""

    def __post_init__(self) -> None:
        if self.d_model % self.n_heads:
            raise ValueError(f"arch.d_model={self.d_model} must be a multiple of arch.n_heads={self.n_heads}")


@dataclass(kw_only=True)
class NarrowConfig(BaseConfig):
    """A narrow one."""

    width: int = 4
    """Width."""


class Colour(Enum):
    """Two names."""

    red = 1
    blue = 2


@dataclass(kw_only=True)
class CopyConfig(Choice):
    """A task with an option of every type."""

    src: str = "de"
    """A language."""
    files: Any = None
    """Anything."""
    names: list[str] = field(default_factory=list)
    """Texts."""
    weights: dict[str, float] = field(default_factory=dict)
    """Numbers by name."""
    pair: tuple[int, int] = (1, 2)
    """Two numbers."""
    folder: Path = Path("data")
    """A path."""
    colour: Colour = Colour.red
    """A name out of a set."""
    limit: int | None = None
    """A number or nothing."""
    either: int | str = 3
    """A number or text."""


@dataclass(kw_only=True)
class NeedyConfig(Choice):
    """A task with an option that has no default."""

    corpus: str
    """What to read."""


@dataclass(kw_only=True)
class LossConfig(Choice):
    """An objective."""

    eps: float = 0.1
    """Smoothing."""


@dataclass(kw_only=True)
class SearchConfig(Choice):
    """A search."""

    beam: int = 4
    """Width."""
    alpha: float = 0.6
    """Penalty."""


@dataclass(kw_only=True)
class RateConfig(Choice):
    """A schedule that follows the architecture."""

    d_model: int = II("arch.d_model")
    """Width of the model."""


@dataclass(kw_only=True)
class ConstantConfig(Choice):
    """A schedule."""

    lr: float = 1e-3
    """Rate."""


ENTRIES: dict[tuple[str, str], type[Choice]] = {
    ("task", "copy"): CopyConfig,
    ("task", "needy"): NeedyConfig,
    ("arch", "wide"): WideConfig,
    ("arch", "narrow"): NarrowConfig,
    ("objective", "label_smoothed"): LossConfig,
    ("optim", "adam"): ConstantConfig,
    ("schedule", "noam"): RateConfig,
    ("schedule", "constant"): ConstantConfig,
    ("search", "beam"): SearchConfig,
    ("search", "greedy"): Choice,
}

PRESETS: dict[tuple[str, str], Mapping[str, Any]] = {
    ("arch", "wide_big"): {"name": "wide", "d_model": 1024, "encoder": {"n_layers": 12}},
    ("arch", "wide_bigger"): {"base": "wide_big", "n_heads": 16, "encoder": {"n_layers": 24}},
    ("arch", "tree"): {"name": "narrow", "width": 9, "defaults": {"train": {"clip": 1.0}}},
    ("task", "parse"): {
        "name": "copy",
        "src": "tree",
        "defaults": {
            "arch": "tree",
            "search": {"beam": 21, "alpha": 0.3},
            "train": {"steps": 50, "clip": 2.0},
        },
    },
    ("experiment", "first"): {
        "task": {"name": "copy"},
        "arch": "wide_big",
        "train": {"steps": 7, "tokens": 8},
    },
    ("experiment", "second"): {"base": "first", "train": {"steps": 9}, "arch": {"dropout": 0.2}},
}


def toy_plugins(presets: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> Plugins:
    """Plugins with these entries and presets, and `presets` beside them."""
    registry = Registry()
    for (group, name), config in ENTRIES.items():
        registry.add(group, name, config, lambda config, *_: config)
    for (group, name), tree in {**PRESETS, **(presets or {})}.items():
        registry.preset(group, name, tree)
    return Plugins(shipped().hook, registry, {"toy": "toy 1.0"})


def refusal(*arguments: str) -> str:
    """What composing a run's configuration of such arguments says of the first that is wrong."""
    with pytest.raises(ConfigError) as caught:
        compose(Config, ["task=copy", "arch=wide", *arguments], toy_plugins())
    return str(caught.value)
