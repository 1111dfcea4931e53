"""LoRA, low-rank adaptation (Hu et al., 2022): a trained model with frozen weights, and small trainable matrices.

s2s-train task=… task.train=… run=tuned train.init_from=base arch=lora arch.of=transformer_tiny
"""

from __future__ import annotations

__all__ = ["LoRAConfig", "LoRAPerTagConfig"]

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.compose import choice_config, entry_config
from s2s.config import SHARE, at_least, check_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from s2s import Seq2Seq, Vocab
    from s2s.config import Config

MODELS = r"^models\.\d+\."
"""What the names of tensors begin with in a run with adapters for each kind of source, and in no other"""
ADAPTERS = r"\.lora_[ab]$"
"""Pattern of the tensors that a run without adapters does not have"""


@dataclass(kw_only=True)
class LoRAConfig(Choice):
    """Low-rank adapters on the linear maps of another architecture, whose own weights are all frozen."""

    of: Any = "transformer_base"
    """The architecture of the run in train.init_from, as it was chosen there: a name, or a mapping with `name` and
    options, {name: transformer_tiny, d_ff: 512}."""
    rank: int = 8
    """Inner size r of each adapter's product B A."""
    alpha: float = 16.0
    """Scale: the product is multiplied by alpha / rank."""
    dropout: float = 0.0
    """Dropout on an adapter's input."""
    match: str = ""
    """Regular expression: linear maps whose names match get adapters; empty: all. The paper adapts only attention:
    match=attention."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, rank=at_least(1), alpha=at_least(0), dropout=SHARE)
        if not (isinstance(self.of, str) or (isinstance(self.of, dict) and isinstance(self.of.get("name"), str))):
            raise ConfigError("arch.of: name the architecture of the run in train.init_from: arch.of=transformer_tiny")


@dataclass(kw_only=True)
class LoRAPerTagConfig(LoRAConfig):
    """Low-rank adapters for each kind of source, such as each language into which task=multilingual translates: the
    tag that begins a source chooses its adapters. The weights that they adapt are the same, and frozen."""


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The architectures, presets of the same names with matching defaults, and the merged weights."""
    registry.arch("lora", LoRAConfig, partial(_build, registry))
    registry.arch("lora_per_tag", LoRAPerTagConfig, partial(_build_per_tag, registry))
    for name, taken in (("lora", {ADAPTERS: None}), ("lora_per_tag", {ADAPTERS: None, MODELS: ""})):
        defaults = {"schedule": {"name": "constant", "lr": 1e-3, "warmup": 0}, "train": {"init_map": taken}}
        registry.preset("arch", name, {"name": name, "defaults": defaults})
    registry.add("merged_weights", "lora", LoRAConfig, partial(_merged, registry))
    registry.add("merged_weights", "lora_per_tag", LoRAPerTagConfig, partial(_merged_per_tag, registry))


@hookimpl(tryfirst=True)
def s2s_plan(config: Config) -> None:
    """Raise ConfigError for adapters of an untrained model, which would learn nothing."""
    starts_from = getattr(config.train, "init_from", None)  # an option of a plugin, which may be absent
    if isinstance(config.arch, LoRAConfig) and not starts_from:
        raise ConfigError(f"arch={config.arch.name} adapts a trained run; name it, as in train.init_from=runs/base")


def _inner(registry: Registry, config: LoRAConfig) -> Choice:
    """The config of the adapted architecture."""
    options = {"name": config.of} if isinstance(config.of, str) else dict(config.of)
    inner = choice_config("arch", options.pop("name"), options, registry)
    if isinstance(inner, LoRAConfig):
        raise ConfigError(
            f"arch.of={inner.name}: adapters have no adapters; give the arch.of of the run in train.init_from, whose "
            "adapters are added to its weights"
        )
    return inner


def _build(registry: Registry, config: LoRAConfig, vocab: Vocab) -> Seq2Seq:
    from s2s_lora.adapters import adapt  # brings torch

    inner = _inner(registry, config)
    model: Seq2Seq = registry.get("arch", inner.name).build(inner, vocab)
    adapt(model, config)
    return model


def _build_per_tag(registry: Registry, config: LoRAPerTagConfig, vocab: Vocab) -> Seq2Seq:
    _inner(registry, config)
    if not vocab.tags:
        raise ConfigError(
            f"arch={config.name} needs a task whose sources begin with tags, such as task=multilingual with "
            "task.before=[tgt]; arch=lora has the same adapters for all sources"
        )
    entry = registry.get("arch", "multidecoder")
    options: dict[str, Any] = {"of": {**vars(config), "name": "lora"}, "share": "frozen"}
    model: Seq2Seq = entry.build(entry_config(entry, options, "arch"), vocab)
    return model


def _merged(registry: Registry, config: LoRAConfig, weights: Mapping[str, Tensor]) -> tuple[Choice, dict[str, Tensor]]:
    """The adapted architecture, and its weights with the adapters in them."""
    from s2s_lora.adapters import merged_weights

    return _inner(registry, config), merged_weights(config, weights)


def _merged_per_tag(
    registry: Registry, config: LoRAPerTagConfig, weights: Mapping[str, Tensor]
) -> tuple[Choice, dict[str, Tensor]]:
    """A model for each tag, each with its adapters in its weights."""
    inner, merged = _merged(registry, config, weights)
    of, entry = {**vars(inner)}, registry.get("arch", "multidecoder")
    width = {"d_model": of.pop("d_model")} if "d_model" in of else {}
    return entry_config(entry, {"name": "multidecoder", "of": of, "share": "frozen", **width}, "arch"), merged
