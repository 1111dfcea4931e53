"""The transforms that options of s2s-generate name: a bias of tokens, and a shortlist."""

from __future__ import annotations

__all__ = ["build_transforms", "token_bias", "token_shortlist"]

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from s2s.compose.conversion import build_choice
from s2s.decoding.transforms import AffineTransform, LogitsTransform
from s2s.errors import ConfigError
from s2s.io.paths import expand_user
from s2s.task import Example

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from s2s.decoding.config import BiasConfig, ShortlistConfig
    from s2s.registry import Registry
    from s2s.task import Task

TransformFactory = Callable[["Task"], LogitsTransform]


def build_transforms(choices: Sequence[Any], task: Task, registry: Registry) -> list[LogitsTransform]:
    """The registered transforms that `choices` name, each alone or as a mapping with options."""
    return [build_choice(choice, "logits_transform", registry, "transforms")(task) for choice in choices]


def token_bias(config: BiasConfig) -> TransformFactory:
    """The transform of `BiasConfig`."""
    return functools.partial(_bias, config)


def token_shortlist(config: ShortlistConfig) -> TransformFactory:
    """The transform of `ShortlistConfig`."""
    return functools.partial(_shortlist, config)


def _bias(config: BiasConfig, task: Task) -> AffineTransform:
    bias = torch.zeros(task.vocab.tgt)
    for text in config.texts:
        if task.vocab.unk in (tokens := _tokens([text], task)):
            raise ConfigError(f"transforms: bias: {text!r} has symbols that are not in the vocabulary; leave it out")
        bias[tokens] = config.bias
    return AffineTransform(torch.ones_like(bias), bias)


def _shortlist(config: ShortlistConfig, task: Task) -> AffineTransform:
    lines = _lines(expand_user(config.file, "transforms: shortlist"))
    tokens = [token for token in _tokens(lines, task) if token != task.vocab.unk]
    bias = torch.full((task.vocab.tgt,), -torch.inf)
    bias[[*tokens, task.vocab.eos]] = 0.0
    return AffineTransform(torch.ones_like(bias), bias)


def _lines(path: Path) -> list[str]:
    """Raises ConfigError for a file that cannot be read."""
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"transforms: shortlist: {path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"transforms: shortlist: {path}: {error.strerror or error}; name a file of texts") from None


def _tokens(texts: Iterable[str], task: Task) -> list[int]:
    """The target tokens of all texts; raises ConfigError if there are none."""
    tokens = {token for pair in task.encode([Example("", text) for text in texts]) for token in pair.tgt}
    if not tokens:
        raise ConfigError("transforms: the texts have no tokens; give others")
    return sorted(tokens)
