"""One encoder, and a decoder for each kind of source, as a plugin: multi-task learning after Luong et al. (2015)."""

from __future__ import annotations

__all__ = ["MultiDecoderConfig"]

from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from s2s import Choice, ConfigError, Registry, hookimpl
from s2s.compose import entry_config
from s2s.config import at_least, check_ranges

if TYPE_CHECKING:
    from s2s import Vocab
    from s2s.config import Config
    from s2s_multidecoder.model import MultiDecoder

Shared = Literal["encoding", "frozen"]


@dataclass(kw_only=True)
class MultiDecoderConfig(Choice):
    """Models of one architecture, one for each kind of source, that share everything used in encoding."""

    of: dict[str, Any] = field(default_factory=lambda: {"name": "transformer", "share_embeddings": "target"})
    """The architecture, by its name and with its options: {name: transformer, d_ff: 512, …}; for another architecture,
    give all of it at once, as in arch.of={name: …}."""
    d_model: int = 512
    """Width of the models, if their architecture has that option."""
    share: Shared = "encoding"
    """What the models share: encoding, all that is used in encoding; frozen, all that is not trained, such as what
    adapters (of={name: lora, …}) adapt."""

    def __post_init__(self) -> None:
        check_ranges("arch", self, d_model=at_least(1))
        if "d_model" in self.of:
            raise ConfigError("arch.of.d_model: the schedule may follow it, so give it as arch.d_model")
        if not isinstance(self.of.get("name"), str):
            raise ConfigError("arch.of must name an architecture; give arch.of.name=… and its options beside it")


@hookimpl
def s2s_register(registry: Registry) -> None:
    """The architecture, under its name."""
    registry.arch("multidecoder", MultiDecoderConfig, partial(_build, registry))


@hookimpl(tryfirst=True)
def s2s_build_model(config: Config) -> None:
    """Raise ConfigError for fsdp, which would hang: to gather a decoder's shards, all processes must be in it."""
    if isinstance(config.arch, MultiDecoderConfig) and getattr(config.train, "strategy", "") == "fsdp":
        raise ConfigError(
            "train.strategy=fsdp: with arch=multidecoder, processes are in different decoders at a time; use ddp"
        )


def _build(registry: Registry, config: MultiDecoderConfig, vocab: Vocab) -> MultiDecoder:
    """A model of the named architecture for each kind of source."""
    from s2s_multidecoder.model import MultiDecoder  # brings torch

    if not vocab.tags:
        raise ConfigError(f"arch={config.name} needs a task with several kinds of sources, such as task=multitask")
    entry = registry.get("arch", config.of["name"])
    width = {"d_model": config.d_model} if any(item.name == "d_model" for item in fields(entry.config)) else {}
    inner = entry_config(entry, width | config.of, "arch.of")
    return MultiDecoder((entry.build(inner, vocab) for _ in range(vocab.tags)), vocab, config.share)
