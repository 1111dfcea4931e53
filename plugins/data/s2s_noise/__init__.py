"""Noise of training pairs, by name in task.noise: case, typing errors, punctuation, emoji, addresses."""

from __future__ import annotations

__all__ = ["TyposConfig", "s2s_register"]

from dataclasses import dataclass

from s2s import Registry, hookimpl
from s2s.config import Range, check_ranges
from s2s.data import noise

KINDS = {
    "upper_case": "UpperCase",
    "title_case": "TitleCase",
    "punctuation": "Punctuation",
    "emoji": "Emoji",
    "urls": "Addresses",
}


@dataclass(kw_only=True)
class TyposConfig(noise.NoiseConfig):
    """Typing errors in sources."""

    rate: float = 0.1
    """Share of the words that have one; every altered source has at least one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(f"task.noise.{self.name}", self, rate=Range(0, 1))


@hookimpl
def s2s_register(registry: Registry) -> None:
    for name, kind in KINDS.items():
        registry.add("noise", name, noise.NoiseConfig, f"s2s_noise.kinds:{kind}")
    registry.add("noise", "typos", TyposConfig, "s2s_noise.typos:Typos")
