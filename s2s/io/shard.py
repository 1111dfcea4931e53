"""A numbered part of a work that several commands share."""

from __future__ import annotations

__all__ = ["Shard"]

import re
from dataclasses import dataclass
from typing import Self

from s2s.errors import ConfigError


@dataclass(frozen=True)
class Shard:
    """One of `of` parts."""

    number: int
    """From 1"""
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard of an option such as shard=3/16; raises ConfigError for anything else."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise ConfigError(f"shard={text}: expected a number and how many shards there are, from 1/4 to 4/4")
        return shard

    def has(self, index: int) -> bool:
        """Whether the item at an index, from 0, is one of this shard: the items are dealt in turn."""
        return index % self.of == self.number - 1
